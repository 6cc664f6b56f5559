package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// shop is a provider that both releases of a tool use. It dedups by a request's key and finds
// effects by a marker.
type shop struct {
	*provider
	marked []out
}

// release is a tool as one release of a program declares it.
type release struct {
	kept, settles time.Duration
	find          bool
}

// tool returns the release's tool. If lost, every reply is lost: after the provider has acted, or,
// with before, before the request arrives.
func (s *shop) tool(r release, lost, before bool) external.Tool[in, out] {
	t := external.Tool[in, out]{KeyKept: r.kept, Settles: r.settles, Timeout: time.Second}
	t.Perform = func(_ context.Context, a external.Attempt, i in) (out, error) {
		if lost && before {
			return out{}, errLost
		}
		key := ""
		if r.kept > 0 {
			key = a.Key
		}
		o := s.act(key, i.Order)
		if r.find {
			s.marked = append(s.marked, o)
		}
		if lost {
			return out{}, errLost
		}
		return o, nil
	}
	if r.find {
		t.Find = func(context.Context, external.Attempt, in) ([]out, error) { return s.marked, nil }
	}
	return t
}

// cutOff makes a call whose process dies after its attempt has acted or, with lost, before the
// request arrives.
func cutOff(f *fixture, t external.Tool[in, out], key string) {
	f.t.Helper()
	perform := t.Perform
	t.Perform = func(ctx context.Context, a external.Attempt, i in) (out, error) {
		_, err := perform(ctx, a, i)
		f.exec(`UPDATE tool_effect SET fence = fence + 1 WHERE key = $1`, key) // the old process can write nothing more
		return out{}, err
	}
	_, err := add(f, t).Do(f.ctx, impatient(key), in{1})
	require.ErrorIs(f.t, err, dedup.ErrInFlight)
	require.Equal(f.t, external.StateRunning, f.lookup(key).State)
}

// TestReleases has one release make an attempt and die, and another one continue the operation:
// once after the attempt has acted, and once after its request was lost. Nothing happens twice,
// whatever the two declare.
func TestReleases(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	none, key, look := release{}, release{kept: external.Forever}, release{find: true, settles: time.Minute}
	both := release{kept: external.Forever, find: true, settles: time.Minute}
	const cannotAsk, unseen = "the provider cannot be asked", "a release without Find"
	for name, c := range map[string]struct {
		before, after release
		acted, lost   external.State // the last state, if the attempt has acted and if its request was lost
		note          string         // if parked
	}{
		"Same/Key":             {key, key, external.StateDone, external.StateDone, ""},
		"Same/Find":            {look, look, external.StateDone, external.StateDone, ""},
		"KeyAdded":             {none, key, external.StateParked, external.StateParked, cannotAsk},
		"KeyAddedToFind":       {look, both, external.StateDone, external.StateDone, ""},
		"KeyAndFindAdded":      {none, both, external.StateParked, external.StateParked, unseen},
		"KeyTakenAway":         {key, none, external.StateParked, external.StateParked, cannotAsk},
		"KeyTakenFromFind":     {both, look, external.StateDone, external.StateDone, ""},
		"FindAdded":            {none, look, external.StateParked, external.StateParked, unseen},
		"FindAddedToKey":       {key, both, external.StateDone, external.StateDone, ""},
		"FindTakenAway":        {look, none, external.StateParked, external.StateParked, cannotAsk},
		"FindTakenFromKey":     {both, key, external.StateDone, external.StateDone, ""},
		"FindInPlaceOfKey":     {key, look, external.StateParked, external.StateParked, unseen},
		"KeyInPlaceOfFind":     {look, key, external.StateParked, external.StateParked, cannotAsk},
		"KeyKeptShorter":       {key, release{kept: 3 * lease}, external.StateParked, external.StateParked, cannotAsk},
		"SettlesNoLongerKnown": {look, release{find: true}, external.StateDone, external.StateParked, "it may still be on its way"},
	} {
		for fate, want := range map[string]external.State{"acted": c.acted, "lost": c.lost} {
			key := name + "/" + fate
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				s := &shop{provider: newProvider()}
				cutOff(process(t, shared.pool), s.tool(c.before, true, fate == "lost"), key)
				f := process(t, shared.pool)
				h := add(f, s.tool(c.after, false, false))
				op := f.until(key, want)
				require.Empty(t, op.Twice)
				if want == external.StateParked {
					require.Contains(t, op.Note, c.note)
					require.Equal(t, fate == "acted", s.effects() == 1)
					return
				}
				result, err := h.Do(f.ctx, call(key), in{1})
				require.NoError(t, err)
				require.Equal(t, out{"ch_1"}, result.Value)
				require.Equal(t, 1, s.effects())
			})
		}
	}
}

// TestReleaseLeavesToAnother has a release without key or Find postpone an operation for a release
// that has them.
func TestReleaseLeavesToAnother(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for key, with := range map[string]release{"Key": {kept: external.Forever}, "Find": {find: true, settles: time.Minute}} {
		s := &shop{provider: newProvider()}
		cutOff(process(t, shared.pool), s.tool(with, true, false), key)
		without, f := process(t, shared.pool), process(t, shared.pool)
		add(without, s.tool(release{}, false, false))
		without.untilDue(without.lookup(key))
		require.Equal(t, external.StateRunning, without.advance(key).State)
		add(f, s.tool(with, false, false))
		f.until(key, external.StateDone)
		require.Equal(t, 1, s.effects())
	}
}

// TestReleaseKeepsAResult has a result that could not be recorded and that the next release cannot
// read. It is kept, and the release that wrote it records it.
func TestReleaseKeepsAResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.makeLedger()
	closed := true
	tool := ledger(external.Tool[in, out]{KeyKept: external.Forever, Perform: answering("ch_1")})
	finish := tool.Finish
	tool.Finish = func(ctx context.Context, tx pgx.Tx, i in, o out) error {
		if closed {
			return errors.New("the ledger is closed")
		}
		return finish(ctx, tx, i, o)
	}
	h := add(f, tool)
	_, err := h.Do(f.ctx, call("k"), in{1})
	f.parkedBy(err, "the ledger is closed")

	next := process(t, f.pool)
	_, err = external.Add(next.tools, external.Tool[in, charged]{
		Name: "charge", KeyKept: external.Forever, Ref: func(o charged) string { return o.Charge },
		Perform: func(context.Context, external.Attempt, in) (charged, error) { return charged{"ch_1"}, nil },
	})
	require.NoError(t, err)
	op := next.lookup("k")
	for range 5 { // more than the look-ups of a parked operation
		next.untilDue(op)
		op, err = next.tools.Advance(f.ctx, "acme", "charge", "k")
		require.NoError(t, err)
		require.Equal(t, external.StateParked, op.State)
		require.Equal(t, "happened", op.Verdict)
		require.Contains(t, op.Note, "the ledger is closed")
		require.Less(t, op.Due.Sub(op.Now), 3*lease, "nothing was recorded, so the pause stays")
	}
	closed = false
	f.until("k", external.StateDone)
	require.Equal(t, []string{"finish ch_1"}, f.ledger(1))
}

// TestReleaseReadsAnotherResult has an attempt succeed after another release has recorded the same
// effect in another form. It is not reported as a second effect.
func TestReleaseReadsAnotherResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: answering("ch_1")})
	next := process(t, f.pool)
	entered, goOn := make(chan struct{}), make(chan struct{})
	h, err := external.Add(next.tools, external.Tool[in, charged]{
		Name: "charge", KeyKept: external.Forever, Ref: func(o charged) string { return o.Charge },
		Perform: func(context.Context, external.Attempt, in) (charged, error) {
			close(entered)
			<-goOn
			return charged{"ch_1"}, nil
		},
	})
	require.NoError(t, err)
	called := make(chan error, 1)
	go func() {
		_, err := h.Do(next.ctx, call("k"), in{1})
		called <- err
	}()
	<-entered
	f.exec(`UPDATE tool_effect SET due_at = clock_timestamp(), fence = fence + 1`)
	require.Equal(t, external.StateDone, f.advance("k").State)
	close(goOn)
	require.NoError(t, <-called)
	require.Empty(t, f.lookup("k").Twice)
}

// charged is the result type of a later release than [out]'s.
type charged struct {
	Charge string `json:"charge"`
}

// TestReleaseChangesTheClass has a call under way whose tool is one of package dedup in the next
// release. That release ignores the attempt, whose effect is reported when it returns.
func TestReleaseChangesTheClass(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, goOn := make(chan struct{}), make(chan struct{})
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		close(entered)
		<-goOn
		return out{"ch_1"}, nil
	}})
	answered := make(chan dedup.Result[out], 1)
	go func() {
		result, _ := h.Do(f.ctx, call("k"), in{1})
		answered <- result
	}()
	<-entered
	next := call("k")
	next.Tool, next.Args = "charge", in{1}
	_, err := dedup.Do(f.ctx, f.d, next, func(context.Context, pgx.Tx) (out, error) { return out{"row 7"}, nil })
	require.NoError(t, err)
	close(goOn)
	require.Equal(t, out{"row 7"}, (<-answered).Value)
	f.untilDue(f.lookup("k"))
	require.Equal(t, "ch_1", f.advance("k").Twice)
	require.Equal(t, 1, f.steps.count(external.EventTwice))
}

// TestReleaseChangesTheName renames a tool: its calls are other calls.
func TestReleaseChangesTheName(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	s := &shop{provider: newProvider()}
	cutOff(process(t, shared.pool), s.tool(release{kept: external.Forever}, true, false), "k")
	f := process(t, shared.pool)
	renamed := s.tool(release{kept: external.Forever}, false, false)
	renamed.Name = "debit"
	_, err := add(f, renamed).Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, 2, s.effects())
	open, err := f.tools.Open(f.ctx, f.pool, external.List{Limit: 10})
	require.NoError(t, err)
	require.Len(t, open, 1, "the old call is listed")
	require.Equal(t, external.StateRunning, open[0].State)
}
