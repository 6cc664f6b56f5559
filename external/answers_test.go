package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestStillWorking is a provider that has accepted a job and works for a while: as long as its
// look-up says so by an error, nothing is sent a second time, though Settles has passed.
func TestStillWorking(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	attempts, looks := 0, 0
	h := add(f, external.Tool[in, out]{
		Settles: 1,
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			attempts++
			return out{}, errWorking
		},
		Find: func(_ context.Context, _ external.Attempt, i in) ([]out, error) {
			if looks++; looks < 3 {
				return nil, errWorking
			}
			return []out{p.act("", i.Order)}, nil
		},
	})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 1, attempts)
	require.Equal(t, 3, looks)
}

var errWorking = errors.New("409: the first request still runs")

// TestWithoutASequence: what a claim cannot write down is not sent.
func TestWithoutASequence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	performed := 0
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		performed++
		return out{"ch_1"}, nil
	}})
	f.exec(`DROP SEQUENCE tool_effect_fence`)
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorContains(t, err, "tool_effect_fence")
	require.Zero(t, performed)
}

// TestExists is a provider that refuses a key that it knows: it is no refusal of the call.
func TestExists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	attempts := 0
	perform := func(_ context.Context, _ external.Attempt, i in) (out, error) {
		if attempts++; attempts == 1 {
			p.act("", i.Order)
			return out{}, errLost
		}
		return out{}, external.ErrExists
	}
	// The first look comes too early, so that the key is sent again.
	looks := 0
	h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: perform, Find: func(_ context.Context, _ external.Attempt, i in) ([]out, error) {
		if looks++; looks < 3 {
			return nil, nil
		}
		return p.find(i.Order), nil
	}})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 1, p.effects())

	attempts = 0
	blind := add(f, external.Tool[in, out]{Name: "blind", KeyKept: external.Forever, Perform: perform})
	var parked *external.ParkedError
	_, err = blind.Do(f.ctx, call("k"), in{2})
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "already")
	require.Equal(t, 2, p.effects())
}

// TestExistsIsNeverFound parks in the end, and does not look for ever.
func TestExistsIsNeverFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attempts := 0
	h := add(f, external.Tool[in, out]{
		KeyKept: external.Forever, Find: func(context.Context, external.Attempt, in) ([]out, error) { return nil, nil },
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			attempts++
			_, err := f.pool.Exec(f.ctx, `UPDATE tool_effect SET tries = 20`)
			return out{}, errors.Join(err, external.ErrExists)
		},
	})
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.LessOrEqual(t, attempts, 2)
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	perform := func(context.Context, external.Attempt, in) (out, error) { return out{}, nil }
	find := func(context.Context, external.Attempt, in) ([]out, error) { return nil, nil }
	add(f, external.Tool[in, out]{Name: "taken", Perform: perform})
	for name, tool := range map[string]external.Tool[in, out]{
		"Tool.Name":    {Perform: perform},
		"taken":        {Name: "taken", Perform: perform},
		"Tool.Perform": {Name: "x"},
		"Tool.Ref":     {Name: "x", Perform: perform, Find: find},
		"Tool.Settles": {Name: "x", Perform: perform, Settles: lease},
		"Tool.Timeout": {Name: "x", Perform: perform, Ref: refOf, KeyKept: lease},
		"Retention":    {Name: "x", Perform: perform, Retention: dedup.Retention{Result: -1}},
		"negative":     {Name: "x", Perform: perform, Timeout: -1},
	} {
		_, err := external.Add(f.tools, tool)
		require.ErrorIs(t, err, dedup.ErrInvalid, name)
		require.ErrorContains(t, err, name)
	}
	_, err := external.New(nil, nil)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	for _, opts := range []external.Options{{Lease: 1}, {Workers: -1}} {
		_, err := external.New(f.d, &opts)
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
}

func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, nil }})
	for name, c := range map[string]dedup.Call{
		"Scope": {Key: "k"}, "Key": {Scope: "acme"}, "Tool": {Scope: "acme", Key: "k", Tool: "other"}, "Args": {Scope: "acme", Key: "k", Args: []byte("x")},
	} {
		var invalid *dedup.InvalidError
		_, err := h.Do(f.ctx, c, in{1})
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, name, invalid.Field)
	}
	_, err := f.tools.Advance(f.ctx, "acme", "unknown", "k")
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.NoError(t, f.tools.Close(f.ctx))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorIs(t, f.tools.Recover(f.ctx), dedup.ErrInvalid)
}
