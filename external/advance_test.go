package external_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestKeyExpiresInTheQueue is a call whose key holds when Recover reads that it is due, and
// no longer when its turn comes. It is not sent again.
func TestKeyExpiresInTheQueue(t *testing.T) {
	t.Parallel()
	// So long that a crowded machine extends it in time: else the slow one gives way too early.
	const lease, kept = time.Second, 5 * time.Second
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Workers: 1})
	attempts := 0
	h := add(f, external.Tool[in, out]{KeyKept: kept, Timeout: lease, Perform: func(context.Context, external.Attempt, in) (out, error) {
		attempts++
		return out{}, errLost
	}})
	// The call before it in the queue takes until the provider has forgotten the key.
	slow := add(f, external.Tool[in, out]{Name: "slow", Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
		_, err := f.pool.Exec(ctx, `SELECT pg_sleep_until(sent_at + $1::interval) FROM tool_effect WHERE tool = 'charge'`, kept)
		return out{"slow"}, err
	}})
	for _, h := range []*external.Handle[in, out]{h, slow} {
		require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call("k"), in{1})
			return err
		}))
	}
	_, err := f.tools.Advance(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, 1, attempts)
	_, err = f.pool.Exec(f.ctx, `UPDATE tool_effect SET due_at = clock_timestamp() - CASE tool WHEN 'slow' THEN interval '1 s' ELSE interval '0' END`)
	require.NoError(t, err)

	ctx, stop := context.WithCancel(f.ctx)
	f.steps.stopAt(func(data dedup.ExternalData) {
		if data.Tool == "charge" && (data.Step == dedup.ExternalParked || data.Step == dedup.ExternalSending) {
			stop()
		}
	})
	require.NoError(t, f.tools.Recover(ctx))
	require.Equal(t, 1, attempts)
	require.Equal(t, external.Parked, f.lookup("k").State)
}

// TestKeyIsForgottenBeforeItSettles is a call whose second attempt might take effect when
// the provider has forgotten the key. It is not made.
func TestKeyIsForgottenBeforeItSettles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	attempts := 0
	h := add(f, external.Tool[in, out]{KeyKept: time.Minute, Settles: time.Minute, Timeout: time.Second, Perform: func(context.Context, external.Attempt, in) (out, error) {
		if attempts++; attempts > 1 {
			return out{"late"}, nil
		}
		return out{}, errLost
	}})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.Equal(t, 1, attempts)
}
