package external_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestTableLockedAtTheRecord has somebody lock the table, as CREATE INDEX does, after the effect
// and before its record: the effect is recorded once the lock is gone, and happens once.
func TestTableLockedAtTheRecord(t *testing.T) {
	t.Parallel()
	f, p := newFixture(t), newProvider()
	f.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''20ms''', current_database()); END $$`)
	f.pool.Reset()
	locked, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	retried := make(chan struct{}, 100)
	f.steps.onRetry(func() { retried <- struct{}{} })
	h := add(f, external.Tool[in, out]{Perform: func(ctx context.Context, a external.Attempt, i in) (out, error) {
		_, err := locked.Exec(ctx, `LOCK TABLE tool_dedup IN SHARE MODE`)
		return p.act(a.Key, i.Order), err
	}})
	answer := make(chan error, 1)
	go func() {
		_, err := h.Do(f.ctx, call("k"), in{1})
		answer <- err
	}()
	<-retried
	require.NoError(t, locked.Rollback(f.ctx))
	require.NoError(t, <-answer)
	require.Equal(t, 1, p.effects())
	require.Equal(t, 1, f.steps.count(dedup.ExternalRecorded))
	require.Equal(t, external.Done, f.lookup("k").State)
	require.NoError(t, f.tools.Close(f.ctx))
}
