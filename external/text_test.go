package external_test

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// unstorable is text that Postgres rejects.
const unstorable = "a\x00b\xffc"

// TestTextThatPostgresRefuses stores text without the bytes that Postgres rejects. No outcome is
// lost.
func TestTextThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{
		Ref:     func(o out) string { return o.ID + unstorable },
		Perform: answering("ch_1"),
	})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.True(t, strings.HasPrefix(f.lookup("k").Ref, "ch_1ab"))

	long := errors.New(unstorable + strings.Repeat("é", 1<<20))
	var parked *external.ParkedError
	lost := add(f, external.Tool[in, out]{Name: "lost", Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, long }})
	_, err = lost.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.LessOrEqual(t, len(parked.Operation.Note), 1100)
	require.NoError(t, f.tools.Resolve(f.ctx, parked.Operation, external.Refuse(unstorable)))
	_, err = lost.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)

	refuses := add(f, external.Tool[in, out]{Name: "refuses", Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, dedup.Final(long) }})
	_, err = refuses.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
	_, err = refuses.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
}

// TestInputIsStoredWhole has an input whose type encodes itself by a pointer's method.
// encoding/json ignores the method on a value.
func TestInputIsStoredWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	type sum struct{ N big.Float }
	h, err := external.Add(f.tools, external.Tool[sum, sum]{
		Name: "charge", Perform: func(_ context.Context, _ external.Attempt, i sum) (sum, error) { return i, nil },
	})
	require.NoError(t, err)
	result, err := h.Do(f.ctx, call("k"), sum{*big.NewFloat(7)})
	require.NoError(t, err)
	require.Equal(t, "7", result.Value.N.String())
}

// written is the input of one release. In others its member has another name or another type.
type (
	written struct {
		Card int `json:"card"`
	}
	renamed struct {
		CardNumber int `json:"card_number"`
	}
	retyped struct {
		Card string `json:"card"`
	}
)

// addRelease adds the tool "charge" of a release that cannot read the inputs of others.
func addRelease[In any](f *fixture) {
	f.t.Helper()
	_, err := external.Add(f.tools, external.Tool[In, out]{Name: "charge", Perform: func(context.Context, external.Attempt, In) (out, error) {
		f.t.Error("was called with an input that does not fit")
		return out{}, nil
	}})
	require.NoError(f.t, err)
}

// TestInputOfAnotherRelease has an operation whose input a later release cannot read, or reads
// without a member. That release does not perform it, and its notes quote no value. A verdict's
// actor stays in the note, also when the operation is parked. After the verdict Never, the release
// that can read the input performs it.
func TestInputOfAnotherRelease(t *testing.T) {
	t.Parallel()
	const card = 4111111111111111
	shared := newFixture(t)
	for name, c := range map[string]struct {
		release func(*fixture)
		decided bool // the verdict precedes the release that cannot read
		says    string
	}{
		"Renamed": {addRelease[renamed], false, `its input has a member that the tool's input lacks, at or in "card"`},
		"Retyped": {addRelease[retyped], false, `its input does not fit the tool's input at "card"`},
		"Decided": {addRelease[renamed], true, "ada: not in the books; its input "},
	} {
		old, later := process(t, shared.pool), process(t, shared.pool)
		var cards []int
		h, err := external.Add(old.tools, external.Tool[written, out]{Name: "charge", Perform: func(_ context.Context, _ external.Attempt, i written) (out, error) {
			cards = append(cards, i.Card)
			return out{"ch_1"}, nil
		}})
		require.NoError(t, err)
		require.NoError(t, pgx.BeginFunc(old.ctx, old.pool, func(tx pgx.Tx) error {
			_, err := h.Accept(old.ctx, tx, call(name), written{card})
			return err
		}))
		c.release(later)
		if c.decided {
			require.NoError(t, process(t, shared.pool).tools.Resolve(old.ctx, old.lookup(name), external.Never("not in the books").By("ada")))
		}
		op := later.lookup(name)
		decided := op.Decision()
		for acts := 0; op.State != external.StateParked; acts++ {
			require.Less(t, acts, 20)
			require.Equal(t, external.StatePending, op.State)
			require.Equal(t, decided, op.Decision())
			later.elapse(name, lease*100)
			op = later.advance(name)
		}
		require.Contains(t, op.Note, c.says)
		require.NotContains(t, op.Note, "4111")
		require.Zero(t, op.SentAt)
		require.NoError(t, old.tools.Resolve(old.ctx, op, external.Never("nothing was sent")))
		require.Equal(t, []int{card}, cards)
		require.Equal(t, external.StateDone, old.lookup(name).State)
	}
}

// TestInputOfAnEarlierRelease reads an input without a member that a later release added.
func TestInputOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old, err := external.Add(f.tools, external.Tool[struct{}, out]{Name: "charge", Perform: func(context.Context, external.Attempt, struct{}) (out, error) { return out{}, errLost }})
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		_, err := old.Accept(f.ctx, tx, call("k"), struct{}{})
		return err
	}))
	later := process(t, f.pool)
	add(later, external.Tool[in, out]{Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		require.Zero(t, i)
		return out{"ch_1"}, nil
	}})
	later.until("k", external.StateDone)
}

// backwards is a map key that is read back as another one.
type backwards string

func (b *backwards) UnmarshalText(text []byte) error {
	runes := []rune(string(text))
	slices.Reverse(runes)
	*b = backwards(runes)
	return nil
}

// TestInputSurvives refuses inputs that change when they are read back, and claims nothing.
func TestInputSurvives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	survives(f, "any", any(9007199254740993), any(9007199254740991))
	survives(f, "member", map[string]any{"n": 9007199254740993}, map[string]any{"n": 1.5})
	survives(f, "key", map[backwards]int{"ab": 1}, map[backwards]int{"aa": 1})
}

func survives[In any](f *fixture, name string, bad, good In) {
	f.t.Helper()
	h, err := external.Add(f.tools, external.Tool[In, out]{Name: name, Perform: func(context.Context, external.Attempt, In) (out, error) {
		return out{"ch_1"}, nil
	}})
	require.NoError(f.t, err)
	_, err = h.Do(f.ctx, call("k"), bad)
	var invalid *dedup.InvalidError
	require.ErrorAs(f.t, err, &invalid)
	require.Contains(f.t, invalid.Reason, "changes when it is read back")
	_, err = h.Do(f.ctx, call("k"), good)
	require.NoError(f.t, err)
}
