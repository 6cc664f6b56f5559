package external_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestKeyExpiresWhileItIsTaken is a call whose key holds when it is read that the call is due, and no
// longer when it can be taken. It is not sent again.
func TestKeyExpiresWhileItIsTaken(t *testing.T) {
	t.Parallel()
	const kept = 5 * lease
	f := newFixture(t)
	attempts := 0
	h := add(f, external.Tool[in, out]{KeyKept: kept, Timeout: lease, Perform: func(context.Context, external.Attempt, in) (out, error) {
		attempts++
		return out{}, errLost
	}})
	accept(f, h, "k", 1)
	f.advance("k")
	require.Equal(t, 1, attempts)
	f.exec(`UPDATE tool_effect SET due_at = clock_timestamp()`)

	advanced := make(chan error, 1)
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.ctx, `SELECT FROM tool_effect FOR UPDATE`); err != nil {
			return err
		}
		go func() {
			_, err := f.tools.Advance(f.ctx, "acme", "charge", "k")
			advanced <- err
		}()
		f.untilWaiting()
		f.ahead.Add(int64(kept))
		return nil
	}))
	require.NoError(t, <-advanced)
	f.elapse(kept)
	require.Equal(t, 1, attempts)
	f.until("k", external.Parked)
	require.Equal(t, 1, attempts)
}

// TestKeyIsForgottenBeforeItSettles is a call whose second attempt might take effect when
// the provider has forgotten the key. It is not made.
func TestKeyIsForgottenBeforeItSettles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attempts := 0
	h := add(f, external.Tool[in, out]{KeyKept: time.Minute, Settles: time.Minute - 2*lease - 1, Timeout: time.Second, Perform: func(context.Context, external.Attempt, in) (out, error) {
		if attempts++; attempts > 1 {
			return out{"late"}, nil
		}
		return out{}, errLost
	}})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.Equal(t, 1, attempts)
}

// TestRecoverToolsApart has a tool whose provider does not answer take all of its slots. Another tool's
// operations go on.
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
	accept := func(h *external.Handle[in, out], key string) {
		accept(f, h, key, 1)
	}
	accept(dead, "1")
	accept(dead, "2")
	ctx, stop := context.WithCancel(f.ctx)
	recovered := make(chan error, 1)
	go func() { recovered <- f.tools.Recover(ctx) }()
	<-hanging
	for _, key := range []string{"1", "2", "3"} {
		accept(alive, key)
	}
	for range 3 {
		select {
		case <-healthy:
		case <-time.After(15 * time.Second):
			require.Fail(t, "a tool waits for another one")
		}
	}
	stop()
	ended, cancel := context.WithCancel(f.ctx) // which ends the attempts
	cancel()
	require.Error(t, f.tools.Close(ended))
	require.NoError(t, <-recovered)
}
