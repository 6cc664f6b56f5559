package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// unstorable is text that Postgres refuses.
const unstorable = "a\x00b\xffc"

// TestTextThatPostgresRefuses is stored without what cannot be: nothing is lost by it.
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

// TestResultThatPostgresRefuses is parked with its ref, and not attempted again.
func TestResultThatPostgresRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attempts := 0
	h, err := external.Add(f.tools, external.Tool[in, json.RawMessage]{
		Name: "charge", KeyKept: external.Forever, Ref: func(json.RawMessage) string { return "ch_1" },
		Perform: func(context.Context, external.Attempt, in) (json.RawMessage, error) {
			attempts++
			return json.RawMessage("\"a\xff\""), nil
		},
	})
	require.NoError(t, err)
	var parked *external.ParkedError
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Equal(t, "ch_1", parked.Operation.Ref)
	require.Equal(t, 1, attempts)
}

// TestInputIsStoredWhole is an input whose type encodes itself by a pointer's method: by
// value, encoding/json leaves out what it has.
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

// TestInputOfAnotherRelease is an operation whose input a later release cannot read, or reads without
// one of its members. It is not performed, what is said of it names no value, and the release that can
// read it performs it when a person has said that nothing has happened.
func TestInputOfAnotherRelease(t *testing.T) {
	t.Parallel()
	const card = 4111111111111111
	type written struct {
		Card int `json:"card"`
	}
	perform := func(cards *[]int) func(context.Context, external.Attempt, written) (out, error) {
		return func(_ context.Context, _ external.Attempt, i written) (out, error) {
			*cards = append(*cards, i.Card)
			return out{"ch_1"}, nil
		}
	}
	for name, c := range map[string]struct {
		add  func(t *testing.T, x *external.Tools) error
		says string
	}{
		"Renamed": {addRelease[struct {
			CardNumber int `json:"card_number"`
		}], `unknown field "card"`},
		"Retyped": {addRelease[struct {
			Card string `json:"card"`
		}], `does not fit the tool's input at "card"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := newFixture(t)
			var cards []int
			h, err := external.Add(old.tools, external.Tool[written, out]{Name: "charge", Perform: perform(&cards)})
			require.NoError(t, err)
			require.NoError(t, pgx.BeginFunc(old.ctx, old.pool, func(tx pgx.Tx) error {
				_, err := h.Accept(old.ctx, tx, call("k"), written{card})
				return err
			}))
			later := process(t, old.pool)
			require.NoError(t, c.add(t, later.tools))
			op := later.lookup("k")
			for acts := 0; op.State != external.Parked; acts++ {
				require.Less(t, acts, 20)
				require.Equal(t, external.Pending, op.State)
				later.exec(`UPDATE tool_effect SET due_at = clock_timestamp()`)
				op = later.advance("k")
			}
			require.Contains(t, op.Note, c.says)
			require.NotContains(t, op.Note, "4111")
			require.Zero(t, op.SentAt)
			require.NoError(t, old.tools.Resolve(old.ctx, op, external.Never("nothing was sent")))
			require.Equal(t, []int{card}, cards)
			require.Equal(t, external.Done, old.lookup("k").State)
		})
	}
	t.Run("Added", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		old, err := external.Add(f.tools, external.Tool[struct{}, out]{Name: "charge", Perform: func(context.Context, external.Attempt, struct{}) (out, error) { return out{}, errLost }})
		require.NoError(t, err)
		require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			_, err := old.Accept(f.ctx, tx, call("k"), struct{}{})
			return err
		}))
		later := process(t, f.pool)
		var cards []int
		_, err = external.Add(later.tools, external.Tool[written, out]{Name: "charge", Perform: perform(&cards)})
		require.NoError(t, err)
		later.until("k", external.Done)
		require.Equal(t, []int{0}, cards)
	})
}

// TestUnreadableInputKeepsTheVerdict is an operation with a verdict and an input that this release cannot
// read. Who has decided stays, also when it is parked.
func TestUnreadableInputKeepsTheVerdict(t *testing.T) {
	t.Parallel()
	old := newFixture(t)
	h := add(old, external.Tool[in, out]{Perform: answering("ch_1")})
	accept(old, h, "k", 1)
	require.NoError(t, process(t, old.pool).tools.Resolve(old.ctx, old.lookup("k"), external.Never("not in the books").By("ada")))
	decided := old.lookup("k")
	later := process(t, old.pool)
	require.NoError(t, addRelease[renamed](t, later.tools))
	op := decided
	for acts := 0; op.State != external.Parked; acts++ {
		require.Less(t, acts, 20)
		require.Equal(t, "never", op.Verdict)
		require.Equal(t, decided.Decision(), op.Decision())
		later.elapse(lease * 100)
		op = later.advance("k")
	}
	require.Contains(t, op.Note, "ada: not in the books; its input ")
}

// TestUnreadableInputIsNoLook is a parked operation and a release that cannot read its input. The looks
// that are left are those of a release that can.
func TestUnreadableInputIsNoLook(t *testing.T) {
	t.Parallel()
	old := newFixture(t)
	p := newProvider()
	h := add(old, external.Tool[in, out]{
		Perform: losing,
		Find:    p.look,
	})
	_, err := h.Do(old.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	later := process(t, old.pool)
	require.NoError(t, addRelease[renamed](t, later.tools))
	for range 5 {
		op := later.lookup("k")
		require.Less(t, op.Due.Sub(op.Now), 10*lease, "the next look comes as soon as this one did")
		later.untilDue(op)
		later.advance("k")
	}
	p.act("", 1)
	old.until("k", external.Done)
}

// renamed is an input whose member another release calls otherwise.
type renamed struct {
	Number int `json:"number"`
}

func addRelease[In any](t *testing.T, x *external.Tools) error {
	t.Helper()
	_, err := external.Add(x, external.Tool[In, out]{Name: "charge", Perform: func(context.Context, external.Attempt, In) (out, error) {
		t.Error("was called with an input that does not fit")
		return out{}, nil
	}})
	return err
}
