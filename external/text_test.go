package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

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
		Perform: func(context.Context, external.Attempt, in) (out, error) { return out{"ch_1"}, nil },
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

// TestInputStaysOutOfErrors is an operation whose input a later deploy cannot read: what is
// said of that names no value.
func TestInputStaysOutOfErrors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const card = 4111111111111111
	old := process(t, f.pool)
	before, err := external.Add(old.tools, external.Tool[map[string]int, out]{
		Name: "charge", Perform: func(context.Context, external.Attempt, map[string]int) (out, error) {
			return out{}, external.NotDone(errLost)
		},
	})
	require.NoError(t, err)
	c := call("k")
	c.MaxWait = lease / 4
	_, err = before.Do(f.ctx, c, map[string]int{"card": card})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, old.tools.Close(f.ctx))
	type changed struct {
		Card string `json:"card"`
	}
	_, err = external.Add(f.tools, external.Tool[changed, out]{
		Name: "charge", Perform: func(context.Context, external.Attempt, changed) (out, error) {
			t.Error("was called with an input that does not fit")
			return out{}, nil
		},
	})
	require.NoError(t, err)
	for f.steps.count(dedup.ExternalReleased) == 0 {
		op, err := f.tools.Advance(f.ctx, "acme", "charge", "k")
		require.NoError(t, err)
		f.untilDue(op)
	}
	note := f.lookup("k").Note
	require.Contains(t, note, "no longer fits")
	require.NotContains(t, note, "4111")
}
