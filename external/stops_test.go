package external_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// performing returns a tool of a kind, by the features of its provider. The provider acts at once.
// It keeps its book by order, and uses the key if the kind has one.
func performing(kind string, p *provider) (tool external.Tool[in, out]) {
	tool.Perform, tool.Find = p.perform, p.look
	switch kind {
	case "key", "neither":
		tool.Find = nil
	case "find+settle":
		tool.Settles = lease
	}
	if kind == "key" || kind == "key+find" {
		tool.KeyKept = external.Forever
		tool.Perform = func(_ context.Context, a external.Attempt, i in) (out, error) { return p.act(a.Key, i.Order), nil }
	}
	return tool
}

// fate is the expected state of an operation and its number of effects.
type fate struct {
	state   external.State
	effects int
	twice   bool
}

// beforeSend is the fate if the process stopped before it had sent anything,
// and afterSend the fate if it stopped after the provider had acted.
var (
	beforeSend = map[string]fate{
		"key": {external.StateDone, 1, false}, "key+find": {external.StateDone, 1, false}, "find+settle": {external.StateDone, 1, false},
		"find": {external.StateParked, 0, false}, "neither": {external.StateParked, 0, false},
	}
	afterSend = map[string]fate{
		"key": {external.StateDone, 1, false}, "key+find": {external.StateDone, 1, false}, "find+settle": {external.StateDone, 1, false},
		"find": {external.StateDone, 1, false}, "neither": {external.StateParked, 1, false},
	}
	once    = fate{external.StateDone, 1, false}
	allOnce = map[string]fate{"key": once, "key+find": once, "find+settle": once, "find": once, "neither": once}
)

// stopped is a process that stops at a step of its first attempt until it is released.
type stopped struct {
	*fixture
	reached, goOn chan struct{}
	calls         sync.WaitGroup
}

// stop makes a call in a new process and returns when the call has reached the step.
func stop(t *testing.T, url string, tool external.Tool[in, out], step external.EventKind) *stopped {
	t.Helper()
	s := &stopped{
		fixture: process(t, connect(t, url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "stopped" })),
		reached: make(chan struct{}), goOn: make(chan struct{}),
	}
	var first, past sync.Once
	s.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventAnswered && step == external.EventEnding { // later the row is locked
			past.Do(func() { s.elapse("k", 3*lease) })
		}
		if data.Kind == step {
			if step == external.EventEnding {
				past.Do(func() {}) // another attempt may get here while the first one moves the time
			}
			first.Do(func() {
				close(s.reached)
				<-s.goOn
			})
		}
	})
	h := add(s.fixture, tool)
	s.calls.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = h.Do(ctx, call("k"), in{1})
	})
	<-s.reached
	return s
}

// outlive moves the time until the process's lease has ended and its requests have settled.
func (s *stopped) outlive(other *fixture) {
	s.ahead.Add(int64(3 * lease))
	other.elapse("k", 3*lease)
}

// TestPauseAtEveryStep pauses a process at each step for longer than its lease, has another one
// act, and continues the first.
func TestPauseAtEveryStep(t *testing.T) {
	t.Parallel()
	unparked := map[string]fate{
		"key": once, "key+find": once, "find": once, "neither": once,
		// The pause was longer than Settles: only this can cause two effects.
		"find+settle": {external.StateDone, 2, true},
	}
	for step, fates := range map[external.EventKind]map[string]fate{
		external.EventClaimed: beforeSend, external.EventSending: unparked,
		external.EventAnswered: allOnce, external.EventRecording: allOnce, external.EventEnding: allOnce, external.EventRecorded: allOnce,
	} {
		for kind, want := range fates {
			t.Run(string(step)+"/"+kind, func(t *testing.T) {
				t.Parallel()
				db := pgtest.New(t)
				p := newProvider()
				paused := stop(t, db.URL, performing(kind, p), step)
				f := process(t, db.Pool(t))
				h := add(f, performing(kind, p))
				if step != external.EventEnding {
					paused.outlive(f)
				}
				called := make(chan error, 1)
				go func() { // may wait for a row that the paused process has locked
					_, err := h.Do(f.ctx, impatient("k"), in{1})
					called <- err
				}()
				f.untilActedOrWaiting("k")
				close(paused.goOn)
				if err := <-called; err != nil && !errors.As(err, new(*external.ParkedError)) {
					require.ErrorIs(t, err, dedup.ErrInFlight)
				}
				paused.calls.Wait()
				require.NoError(t, paused.tools.Close(t.Context()))
				paused.pool.Close()
				require.NoError(t, f.tools.Close(t.Context()))
				expect(t, f, p, want)
			})
		}
	}
}

// untilActedOrWaiting returns when the process has acted, or waits for a lock.
func (f *fixture) untilActedOrWaiting(key string) {
	f.t.Helper()
	for {
		op := f.lookup(key)
		if op.State != external.StateRunning && op.State != external.StatePending {
			return
		}
		var waits bool
		require.NoError(f.t, f.pool.QueryRow(f.ctx, anyWaits).Scan(&waits))
		if waits {
			return
		}
	}
}

func expect(t *testing.T, f *fixture, p *provider, want fate) {
	t.Helper()
	op := f.lookup("k")
	require.Equal(t, want.state, op.State)
	require.Equal(t, want.effects, p.effects())
	require.Equal(t, want.twice, op.Twice != "", "twice: %q", op.Twice)
}
