package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestFirstThenReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, ledger(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		require.Len(t, a.Key, 36)
		require.Equal(t, "k", a.CallKey)
		return p.act(a.Key, i.Order), nil
	}}))
	first, err := h.Do(f.ctx, call("k"), in{7})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, first.Value)
	require.False(t, first.Replayed)

	again, err := h.Do(f.ctx, call("k"), in{7})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Value, again.Value)
	require.Equal(t, first.CreatedAt, again.CreatedAt)
	require.Equal(t, 1, p.effects())
	require.Equal(t, []string{"finish ch_1"}, f.ledger())

	op := f.lookup("k")
	require.Equal(t, external.Done, op.State)
	require.Equal(t, "ch_1", op.Ref)
	require.Equal(t, external.ProviderKey("acme", "charge", "k"), op.ProviderKey)
	require.True(t, op.Due.IsZero())

	var input *string
	require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT input FROM tool_effect`).Scan(&input))
	require.Nil(t, input, "the input is of no more use")
	status, err := f.d.Lookup(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"ch_1"}`, string(status.Result))
}

func TestKeyReused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lost := true
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		if lost {
			return out{}, errLost
		}
		return out{"ch_1"}, nil
	}})
	var reused *dedup.Error
	_, err := h.Do(f.ctx, call("parked"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	_, err = h.Do(f.ctx, call("parked"), in{2})
	require.ErrorAs(t, err, &reused)
	require.ErrorIs(t, err, dedup.ErrKeyReused)
	require.Equal(t, []string{"order"}, reused.Changed)

	lost = false
	_, err = h.Do(f.ctx, call("done"), in{1})
	require.NoError(t, err)
	_, err = h.Do(f.ctx, call("done"), in{2})
	require.ErrorIs(t, err, dedup.ErrKeyReused)

	compared := call("compared")
	compared.Args = "the same"
	_, err = h.Do(f.ctx, compared, in{1})
	require.NoError(t, err)
	replayed, err := h.Do(f.ctx, compared, in{2})
	require.NoError(t, err, "Args is what is compared")
	require.True(t, replayed.Replayed)
}

func TestTwins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := process(t, f.pool)
	p := newProvider()
	tool := external.Tool[in, out]{Perform: p.perform}
	handles := []*external.Handle[in, out]{add(f, tool), add(other, tool)}
	var calls sync.WaitGroup
	results := make([]dedup.Result[out], 20)
	for i := range results {
		calls.Go(func() {
			var err error
			results[i], err = handles[i%2].Do(f.ctx, call("k"), in{1})
			require.NoError(t, err)
		})
	}
	calls.Wait()
	first := 0
	for _, r := range results {
		require.Equal(t, out{"ch_1"}, r.Value)
		if !r.Replayed {
			first++
		}
	}
	require.Equal(t, 1, first)
	require.Equal(t, 1, p.effects())
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attempts := 0
	h := add(f, ledger(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		attempts++
		return out{}, dedup.Final(errors.New("card declined"))
	}}))
	var refused *dedup.RefusedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &refused)
	require.False(t, refused.Replayed)
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Replayed)
	require.Equal(t, "card declined", refused.Message)
	require.Equal(t, 1, attempts)
	require.Equal(t, []string{"refused card declined"}, f.ledger())
	require.Equal(t, external.Done, f.lookup("k").State)
}

// TestUnknown is what becomes of a lost answer, by what the provider offers.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		tool    external.Tool[in, out]
		happens bool // what was lost was the answer, and not the request
		state   external.State
		effects int
	}{
		"Key/Happened":          {external.Tool[in, out]{KeyKept: external.Forever}, true, external.Done, 1},
		"Key/DidNot":            {external.Tool[in, out]{KeyKept: external.Forever}, false, external.Done, 1},
		"FindSettles/Happened":  {external.Tool[in, out]{Find: lookUp, Settles: time.Millisecond}, true, external.Done, 1},
		"FindSettles/DidNot":    {external.Tool[in, out]{Find: lookUp, Settles: time.Millisecond}, false, external.Done, 1},
		"Find/Happened":         {external.Tool[in, out]{Find: lookUp}, true, external.Done, 1},
		"Find/DidNot":           {external.Tool[in, out]{Find: lookUp}, false, external.Parked, 0},
		"Neither/Happened":      {external.Tool[in, out]{}, true, external.Parked, 1},
		"Neither/DidNot":        {external.Tool[in, out]{}, false, external.Parked, 0},
		"KeyAndFind/Happened":   {external.Tool[in, out]{KeyKept: external.Forever, Find: lookUp}, true, external.Done, 1},
		"KeyAndFind/DidNot":     {external.Tool[in, out]{KeyKept: external.Forever, Find: lookUp}, false, external.Done, 1},
		"KeyForgotten/Happened": {external.Tool[in, out]{KeyKept: 2*lease + 1, Timeout: time.Millisecond}, true, external.Parked, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			p := newProvider()
			first := true
			kind.tool.Perform = func(_ context.Context, a external.Attempt, i in) (out, error) {
				if !first {
					return p.act(keyIf(kind.tool.KeyKept > 0, a), i.Order), nil
				}
				first = false
				if kind.happens {
					p.act(keyIf(kind.tool.KeyKept > 0, a), i.Order)
				}
				return out{}, errLost
			}
			h := add(f, kind.tool)
			ctx := context.WithValue(f.ctx, providerKey{}, p)
			result, err := h.Do(ctx, call("k"), in{1})
			require.Equal(t, kind.effects, p.effects())
			require.Equal(t, kind.state, f.lookup("k").State)
			if kind.state == external.Done {
				require.NoError(t, err)
				require.Equal(t, out{"ch_1"}, result.Value)
				require.False(t, result.Replayed, "this call has recorded it")
				again, err := h.Do(ctx, call("k"), in{1})
				require.NoError(t, err)
				require.True(t, again.Replayed)
				return
			}
			var parked *external.ParkedError
			require.ErrorAs(t, err, &parked)
			require.NotEmpty(t, parked.Operation.Note)
			require.Equal(t, 1, f.steps.count(external.EventParked))
		})
	}
}

type providerKey struct{}

func lookUp(ctx context.Context, _ external.Attempt, i in) ([]out, error) {
	return ctx.Value(providerKey{}).(*provider).find(i.Order), nil
}

func keyIf(takes bool, a external.Attempt) string {
	if takes {
		return a.Key
	}
	return ""
}

func TestNotDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	tries := 0
	h := add(f, external.Tool[in, out]{Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		if tries++; tries < 3 {
			return out{}, external.NotDone(errors.New("status 429"))
		}
		return p.act("", i.Order), nil
	}})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 3, tries)
	require.Equal(t, 2, f.steps.count(external.EventReleased))
}

func TestPanicIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { panic("a bug") }})
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "panic: a bug")
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	h := add(f, external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
		close(entered)
		<-release
		return out{"ch_1"}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(f.ctx)
	go func() {
		<-entered
		cancel()
	}()
	_, err := h.Do(ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.ErrorIs(t, err, context.Canceled)

	_, err = h.Do(f.ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	hurried := call("k")
	hurried.MaxWait = time.Millisecond
	_, err = h.Do(f.ctx, hurried, in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)

	close(release)
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
}

// TestLeaseIsExtended is an attempt whose lease is extended while it runs: nobody takes over
// when the lease that it began with would be over.
func TestLeaseIsExtended(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := process(t, f.pool)
	p := newProvider()
	tool := external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, i in) (out, error) {
		first := f.lookup("k")
		now := first
		for now.Due.Equal(first.Due) { // until the lease is extended; where it is not, ctx ends with it
			_, err := f.pool.Exec(ctx, `SELECT pg_sleep(0.1)`)
			require.NoError(t, err)
			now = f.lookup("k")
		}
		require.Equal(t, first.Fence, now.Fence)
		other.elapse(first.Due.Sub(now.Now))
		op, err := other.tools.Advance(ctx, "acme", "charge", "k")
		require.NoError(t, err)
		require.Equal(t, first.Fence, op.Fence)
		return p.act("", i.Order), nil
	}}
	h := add(f, tool)
	add(other, tool)
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, 1, p.effects())
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Timeout: time.Nanosecond, Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
		<-ctx.Done()
		return out{}, context.Cause(ctx)
	}})
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "Timeout")
}

func TestRecoverEndsWhatWasLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	tool := external.Tool[in, out]{KeyKept: external.Forever, Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		return p.act(a.Key, i.Order), nil
	}}
	h := add(f, tool)
	const n = 20
	for i := range n {
		tx, err := f.pool.Begin(f.ctx)
		require.NoError(t, err)
		op, err := h.Accept(f.ctx, tx, call(fmt.Sprint(i)), in{i})
		require.NoError(t, err)
		require.Equal(t, external.Pending, op.State)
		if i%2 == 0 {
			require.NoError(t, tx.Commit(f.ctx))
		} else {
			require.NoError(t, tx.Rollback(f.ctx))
		}
	}
	ctx, stop := context.WithCancel(f.ctx)
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventRecorded && p.effects() == n/2 && f.steps.count(external.EventRecorded) == n/2 {
			stop()
		}
	})
	require.NoError(t, f.tools.Recover(ctx))
	require.Equal(t, n/2, p.effects())
	for i := range n {
		state := external.Done
		if i%2 == 1 {
			state = external.None
		}
		require.Equal(t, state, f.lookup(fmt.Sprint(i)).State)
	}
}

// TestProviderKey freezes the provider's key: a deploy that changes it charges twice.
func TestProviderKey(t *testing.T) {
	t.Parallel()
	for want, id := range map[string][3]string{
		"ed2aca58-69c1-8b95-8751-58e1380967d3": {"acme", "charge", "k"},
	} {
		got := external.ProviderKey(id[0], id[1], id[2])
		require.Equal(t, want, got)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, got)
	}
}

func TestRoundTripsOfResults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h, err := external.Add(f.tools, external.Tool[json.RawMessage, json.RawMessage]{
		Name:    "charge",
		Perform: func(_ context.Context, _ external.Attempt, i json.RawMessage) (json.RawMessage, error) { return i, nil },
	})
	require.NoError(t, err)
	for i, text := range []string{`null`, `"a\u0000b"`, `12345678901234567890.5`, `{"b":1,"a":[]}`} {
		first, err := h.Do(f.ctx, call(fmt.Sprint(i)), json.RawMessage(text))
		require.NoError(t, err)
		again, err := h.Do(f.ctx, call(fmt.Sprint(i)), json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, text, string(first.Value))
		require.Equal(t, text, string(again.Value))
	}
}

// TestCloseAfterTheLastAnswer closes with a context that has ended, as at the end of a
// process: what is answered is not waited for.
func TestCloseAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 20 {
		f := process(t, pool)
		h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
		_, err := h.Do(f.ctx, call(fmt.Sprint(n)), in{n})
		require.NoError(t, err)
		require.NoError(t, f.tools.Close(ended))
	}
}

// An act that its goroutine leaves by runtime.Goexit, as t.FailNow does, has ended: Close does not wait for it.
func TestGoexitEndsTheAct(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	left, answered := make(chan struct{}), make(chan error, 1)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		defer close(left)
		runtime.Goexit()
		return out{}, nil
	}})
	ctx, cancel := context.WithCancel(f.ctx)
	go func() {
		_, err := h.Do(ctx, call("k"), in{1})
		answered <- err
	}()
	<-left
	require.NoError(t, f.tools.Close(f.ctx))
	cancel()
	require.Error(t, <-answered)
}

// Every step of an operation says who has called.
func TestStepsHaveAttrs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	charge := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{ID: "ch_1"}, nil }})
	agent := []slog.Attr{slog.String("agent", "ada")}
	var others atomic.Int64
	f.steps.stopAt(func(data external.Event) {
		if !slices.EqualFunc(data.Attrs, agent, slog.Attr.Equal) {
			others.Add(1)
		}
	})
	_, err := charge.Do(dedup.WithAttrs(f.ctx, agent...), call("k"), in{})
	require.NoError(t, err)
	require.Equal(t, 1, f.steps.count(external.EventRecorded))
	require.Zero(t, others.Load())
}
