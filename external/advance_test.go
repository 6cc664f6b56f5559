package external_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestKeyExpiresWhileItIsTaken has a key that holds when the row is read and has expired when it is
// taken. The request is not sent again.
func TestKeyExpiresWhileItIsTaken(t *testing.T) {
	t.Parallel()
	const kept = 5 * lease
	f, s := newFixture(t), &script{attempts: []answer{fails(errLost)}}
	h := add(f, s.tool(external.Tool[in, out]{KeyKept: kept, Timeout: lease}))
	accept(f, h, "k", 1)
	f.untilDue(f.advance("k"))
	advanced, locked := make(chan external.Operation, 1), f.begin()
	_, err := locked.Exec(f.ctx, `SELECT FROM tool_effect FOR UPDATE`)
	require.NoError(t, err)
	go func() { advanced <- f.advance("k") }()
	f.untilWaiting()
	f.ahead.Add(int64(kept))
	require.NoError(t, locked.Rollback(f.ctx))
	<-advanced
	f.elapse("k", kept)
	f.until("k", external.StateParked)
	sent, _ := s.count()
	require.Equal(t, 1, sent)
}

// TestWorkersCountWhatIsLeftBehind has attempts and look-ups that run on after their contexts have
// ended. Each takes a slot of its tool until it returns.
func TestWorkersCountWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for _, deaf := range []string{"Perform", "Find"} {
		f := processWith(t, shared.pool, &external.Options{Lease: lease, Workers: 2})
		hold, entered := make(chan struct{}), make(chan struct{}, 100)
		wait := func() {
			entered <- struct{}{}
			<-hold
		}
		h := add(f, external.Tool[in, out]{
			Name: deaf, Settles: time.Millisecond, Timeout: time.Millisecond,
			Perform: func(context.Context, external.Attempt, in) (out, error) {
				if deaf == "Perform" {
					wait()
				}
				return out{}, errLost
			},
			Find: func(context.Context, external.Attempt, in) ([]out, error) {
				if deaf == "Find" {
					wait()
				}
				return []out{{"ch_1"}}, nil
			},
		})
		for n := range 6 {
			accept(f, h, fmt.Sprint(deaf, n), n)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		recovered := make(chan error, 1)
		go func() { recovered <- f.tools.Recover(ctx) }()
		<-entered
		<-entered
		// When another process has acted on both operations, this one has abandoned its acts.
		other := process(t, shared.pool)
		add(other, external.Tool[in, out]{
			Name: deaf, Settles: time.Millisecond, Perform: losing,
			Find: func(context.Context, external.Attempt, in) ([]out, error) { return []out{{"ch_1"}}, nil },
		})
		for n := range 6 {
			f.elapse(fmt.Sprint(deaf, n), 3*lease)
		}
		go func() { _ = other.tools.Recover(ctx) }()
		for open := true; open; {
			require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT count(*) > 0 FROM tool_effect WHERE tool = $1 AND state <> 'done'`, deaf).Scan(&open))
		}
		require.Empty(t, entered, deaf)
		close(hold)
		cancel()
		require.NoError(t, <-recovered)
	}
}

// TestRecoverKeepsSlots has more parked operations due than Recover has slots, and their Finish
// does not return. An operation that is not parked gets a slot all the same.
func TestRecoverKeepsSlots(t *testing.T) {
	t.Parallel()
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Workers: 2})
	hold, entered, healthy := make(chan struct{}), make(chan struct{}, 100), make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	waits := false
	h := add(f, external.Tool[in, out]{
		KeyKept: external.Forever, Perform: answering("ch_1"),
		Finish: func(_ context.Context, _ pgx.Tx, i in, _ out) error {
			if i.Order == 0 {
				close(healthy)
				return nil
			}
			if waits {
				entered <- struct{}{}
				<-hold
			}
			return errors.New("the ledger is closed")
		},
	})
	for n := 1; n <= 4; n++ {
		_, err := h.Do(f.ctx, call(fmt.Sprint(n)), in{n})
		f.parkedBy(err, "the ledger is closed")
	}
	waits = true
	f.exec(`UPDATE tool_effect SET due_at = clock_timestamp()`)
	ctx, cancel := context.WithCancel(f.ctx)
	recovered := make(chan error, 1)
	go func() { recovered <- f.tools.Recover(ctx) }()
	<-entered
	accept(f, h, "healthy", 0)
	select {
	case <-healthy:
	case <-time.After(15 * time.Second):
		require.Fail(t, "an operation waits for parked ones")
	}
	require.Empty(t, entered, "one slot is for parked operations")
	release()
	cancel()
	require.NoError(t, <-recovered)
}

// TestRecoverToolsApart has a tool whose provider does not reply fill all of its slots. Another
// tool's operations continue. Recover ends when the Tools are closed.
func TestRecoverToolsApart(t *testing.T) {
	t.Parallel()
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Workers: 1})
	hanging, healthy := make(chan struct{}, 10), make(chan struct{}, 10)
	dead := add(f, external.Tool[in, out]{Name: "dead", Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
		hanging <- struct{}{}
		<-ctx.Done()
		return out{}, ctx.Err()
	}})
	alive := add(f, external.Tool[in, out]{Name: "alive", Perform: func(context.Context, external.Attempt, in) (out, error) {
		healthy <- struct{}{}
		return out{"ch_1"}, nil
	}})
	accept(f, dead, "1", 1)
	accept(f, dead, "2", 1)
	recovered := make(chan error, 1)
	go func() { recovered <- f.tools.Recover(f.ctx) }()
	<-hanging
	for _, key := range []string{"1", "2", "3"} {
		accept(f, alive, key, 1)
	}
	for range 3 {
		select {
		case <-healthy:
		case <-time.After(15 * time.Second):
			require.Fail(t, "a tool waits for another one")
		}
	}
	ended, cancel := context.WithCancel(f.ctx) // Close with it cancels the attempts
	cancel()
	require.Error(t, f.tools.Close(ended))
	require.NoError(t, <-recovered)
}
