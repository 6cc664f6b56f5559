package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// parked is a tool without key and look-up, whose first attempt is lost.
func parked(f *fixture, keys *[]string) *external.Handle[in, out] {
	f.t.Helper()
	n := 0
	h := add(f, ledger(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, _ in) (out, error) {
		*keys = append(*keys, a.Key)
		if n++; n == 1 {
			return out{}, errLost
		}
		return out{fmt.Sprint("ch_", n)}, nil
	}}))
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(f.t, err, new(*external.ParkedError))
	return h
}

func TestResolveHappened(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	h := parked(f, &keys)
	op := f.lookup("k")
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Happened(out{"ch_9"}, "seen in the dashboard")))
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_9"}, result.Value)
	require.Equal(t, []string{"finish ch_9"}, f.ledger())
	require.Len(t, keys, 1)

	after := f.lookup("k")
	require.Equal(t, "ch_9", after.Ref)
	require.ErrorIs(t, f.tools.Resolve(f.ctx, after, external.Never("again")), dedup.ErrInvalid, "it is answered")
	require.ErrorIs(t, f.tools.Resolve(f.ctx, op, external.Never("again")), dedup.ErrInFlight, "it has changed since it was read")
}

func TestResolveNever(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	h := parked(f, &keys)
	require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Never("not in the dashboard")))
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_2"}, result.Value)
	require.Len(t, keys, 2)
	require.Equal(t, keys[0], keys[1], "the provider's key is the call's")
	require.Equal(t, []string{"finish ch_2"}, f.ledger())
}

func TestResolveRefuse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	h := parked(f, &keys)
	require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("the customer has left")))
	var refused *dedup.RefusedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "the customer has left", refused.Message)
	require.Equal(t, []string{"refused the customer has left"}, f.ledger())
	require.Equal(t, external.Done, f.lookup("k").State)
}

// TestResolveElsewhere stores a verdict in a process that lacks the tool: another one
// carries it out.
func TestResolveElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	h := parked(f, &keys)
	command := process(t, f.pool)
	require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Happened(out{"ch_9"}, "seen")))
	op := f.lookup("k")
	require.Equal(t, external.Parked, op.State)
	require.Equal(t, "happened", op.Verdict)
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_9"}, result.Value)
}

func TestResolveCancelsWhatIsPending(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		t.Error("a cancelled operation was attempted")
		return out{}, nil
	}})
	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	op, err := h.Accept(f.ctx, tx, call("k"), in{1})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(f.ctx))
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Refuse("cancelled")))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
}

func TestResolveInvalid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	parked(f, &keys)
	op := f.lookup("k")
	for name, v := range map[string]external.Verdict{
		"Empty": {}, "NoReason": external.Never(""), "NoJSON": external.Happened(func() {}, "seen"),
	} {
		require.ErrorIs(t, f.tools.Resolve(f.ctx, op, v), dedup.ErrInvalid, name)
	}
	require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("other"), external.Never("x")), dedup.ErrInvalid)
	require.Equal(t, op.Fence, f.lookup("k").Fence)
}

func TestParkedLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: losing})
	const n = 130
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			_, err := h.Do(f.ctx, call(fmt.Sprint(i)), in{i})
			require.ErrorAs(t, err, new(*external.ParkedError))
		})
	}
	calls.Wait()
	seen := map[string]bool{}
	for _, op := range f.parked(f.ctx) {
		require.Equal(t, external.Parked, op.State)
		require.Contains(t, op.Note, "the answer is lost")
		seen[op.Key] = true
	}
	require.Len(t, seen, n)
}

// zombie makes a call whose first attempt outlives its lease: it is deaf to its context. What
// is done meanwhile is up to the test.
func zombie(f *fixture, tool external.Tool[in, out], answer func(try int) (out, error), meanwhile func(*external.Handle[in, out])) *external.Handle[in, out] {
	f.t.Helper()
	var mu sync.Mutex
	tries := 0
	entered, hold := make(chan struct{}), make(chan struct{})
	tool.Perform = func(context.Context, external.Attempt, in) (out, error) {
		mu.Lock()
		tries++
		try := tries
		mu.Unlock()
		if try == 1 {
			close(entered)
			<-hold
		}
		return answer(try)
	}
	// The process of the zombie cannot reach the database to extend its lease.
	h := add(f, tool)
	other := process(f.t, f.pool)
	other.noRef = f.noRef
	second := add(other, tool)
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = h.Do(f.ctx, call("k"), in{1}) })
	<-entered
	f.exec(`UPDATE tool_effect SET due_at = clock_timestamp(), sent_until = clock_timestamp(), fence = nextval('tool_effect_fence')`)
	_, err := other.tools.Advance(f.ctx, "acme", "charge", "k")
	require.NoError(f.t, err)
	meanwhile(second)
	close(hold)
	calls.Wait()
	require.NoError(f.t, f.tools.Close(f.ctx)) // which waits for the zombie
	return second
}

func TestZombieUnparks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := zombie(f, external.Tool[in, out]{}, func(int) (out, error) { return out{"z"}, nil }, func(*external.Handle[in, out]) {
		require.Equal(t, external.Parked, f.lookup("k").State)
	})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"z"}, result.Value)
	require.Empty(t, f.lookup("k").Twice)
}

func TestZombieWithAKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := zombie(f, external.Tool[in, out]{KeyKept: external.Forever}, func(int) (out, error) { return out{"same"}, nil }, func(*external.Handle[in, out]) {
		require.Equal(t, external.Done, f.lookup("k").State)
	})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Empty(t, f.lookup("k").Twice)
	require.Zero(t, f.steps.count(external.EventTwice))
}

// TestZombieAfterAWrongVerdict happens twice, and is reported.
func TestZombieAfterAWrongVerdict(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]external.Verdict{"Never": external.Never("not seen"), "Refuse": external.Refuse("not seen")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			h := zombie(f, external.Tool[in, out]{}, func(try int) (out, error) { return out{fmt.Sprint("z", try)}, nil }, func(h *external.Handle[in, out]) {
				require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), verdict))
				// The zombie's caller may be the one that carries it out.
				for f.lookup("k").State != external.Done {
					_, _ = h.Do(f.ctx, call("k"), in{1})
				}
			})
			_, err := h.Do(f.ctx, call("k"), in{1})
			if name == "Refuse" {
				require.ErrorIs(t, err, dedup.ErrRefused)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, "z1", f.lookup("k").Twice)
			require.Equal(t, 1, f.steps.count(external.EventTwice))
			for _, op := range f.parked(f.ctx) {
				require.Equal(t, "z1", op.Twice)
			}
		})
	}
}

// TestZombieFails is a zombie whose failure says nothing: somebody else has taken over.
func TestZombieFails(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"NotDone": external.NotDone(errLost), "Final": dedup.Final(errLost), "Unknown": errLost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			h := zombie(f, external.Tool[in, out]{}, func(int) (out, error) { return out{}, failure }, func(*external.Handle[in, out]) {})
			_, err := h.Do(f.ctx, call("k"), in{1})
			require.ErrorAs(t, err, new(*external.ParkedError))
			require.NotZero(t, f.steps.count(external.EventFenced))
		})
	}
}

// TestRefusalBesideALateSuccess is a refusal of a second attempt while the first may still
// take effect: it is no answer before that has been looked for and has settled.
func TestRefusalBesideALateSuccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	tries := 0
	h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Settles: time.Hour, Find: lookUp, Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		if tries++; tries == 1 {
			return out{}, errLost // and takes effect later
		}
		p.act("", i.Order) // now
		return out{}, dedup.Final(errors.New("declined"))
	}})
	ctx := context.WithValue(f.ctx, providerKey{}, p)
	result, err := h.Do(ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 2, tries)
}

// TestHappenedDoesNotFit is a verdict whose result no caller could read: it is not recorded.
func TestHappenedDoesNotFit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	h := parked(f, &keys)
	command := process(t, f.pool)
	for _, text := range []string{`{"id":5}`, `{"message_id":"ch_9"}`, `{"id":"ch_9","more":1}`, `{}`, `null`, `"ch_9"`} {
		wrong := external.Happened(json.RawMessage(text), "seen")
		require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("k"), wrong), dedup.ErrInvalid, text)
		require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), wrong))
		_, err := h.Do(f.ctx, call("k"), in{1})
		require.Error(t, err, text)
		require.Equal(t, external.Parked, f.lookup("k").State, text)
		require.Contains(t, f.lookup("k").Note, "cannot be recorded")
	}
	require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Happened(json.RawMessage(` {"ID":"ch_9"}`), "seen")))
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_9", result.Value.ID)
	record, err := f.d.Lookup(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"ch_9"}`, string(record.Result), "as the tool itself writes it")
}

// TestParkedEventHasTheFenceToResolveBy: an operator may copy it from the alert.
func TestParkedEventHasTheFenceToResolveBy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var alerted int64
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventParked {
			alerted = data.Fence
		}
	})
	var keys []string
	parked(f, &keys)
	require.Equal(t, f.lookup("k").Fence, alerted)
}
