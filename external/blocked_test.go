package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestTableLockedAtTheClaim has somebody lock the table, as CREATE INDEX does, before an operation
// is claimed: nobody has the key, so the answer is not that a twin is in flight.
func TestTableLockedAtTheClaim(t *testing.T) {
	t.Parallel()
	f, p := newFixture(t), newProvider()
	h := add(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		return p.act(a.Key, i.Order), nil
	}})
	// A statement locks its tables before it can set a limit of its own.
	f.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''20ms''', current_database()); END $$`)
	f.pool.Reset()
	locked, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = locked.Exec(f.ctx, `LOCK TABLE tool_effect IN SHARE MODE`)
	require.NoError(t, err)

	tx, err := f.pool.Begin(f.ctx)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, tx, call("accepted"), in{1})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.NotErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, tx.Rollback(f.ctx))
	_, err = h.Do(f.ctx, impatient("claimed"), in{1})
	require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.NotErrorIs(t, err, dedup.ErrInFlight)

	require.NoError(t, locked.Rollback(f.ctx))
	_, err = h.Do(f.ctx, call("claimed"), in{1})
	require.NoError(t, err)
	require.Equal(t, 1, p.effects())
}

// TestNewKeyMeetsALock has a new key meet a lock that is not a twin's, such as that of the table's growth, for
// longer than a claim waits for a twin: it waits on, and has not failed once.
func TestNewKeyMeetsALock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	other := db.Pool(t)
	config, err := pgxpool.ParseConfig(db.URL)
	require.NoError(t, err)
	gaveUp := lockTimeouts(make(chan struct{}, 100))
	config.ConnConfig.Tracer = gaveUp
	// A statement that is prepared locks its tables before a limit is set.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	p := newProvider()
	for name, do := range map[string]func(*fixture, *external.Handle[in, out]) error{
		"Do": func(f *fixture, h *external.Handle[in, out]) error {
			_, err := h.Do(f.ctx, call("claimed"), in{1})
			return err
		},
		"Accept": func(f *fixture, h *external.Handle[in, out]) error {
			return pgx.BeginFunc(f.ctx, pool, func(tx pgx.Tx) error {
				_, err := h.Accept(f.ctx, tx, call("accepted"), in{2})
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := process(t, pool)
			h := add(f, external.Tool[in, out]{Perform: p.perform})
			locked, err := other.Begin(f.ctx)
			require.NoError(t, err)
			_, err = locked.Exec(f.ctx, `LOCK TABLE tool_effect IN SHARE MODE`)
			require.NoError(t, err)
			answer := make(chan error, 1)
			go func() { answer <- do(f, h) }()
			select {
			case <-gaveUp:
			case err := <-answer:
				require.NoError(t, err)
			}
			require.NoError(t, locked.Rollback(f.ctx))
			require.NoError(t, <-answer)
		})
	}
	t.Run("DoWhileLocked", func(t *testing.T) { // its tries are bounded, and wait without a connection
		f := process(t, pool)
		f.d, err = dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3}})
		require.NoError(t, err)
		f.tools, err = external.New(f.d, nil)
		require.NoError(t, err)
		h := add(f, external.Tool[in, out]{Perform: p.perform})
		locked, err := other.Begin(f.ctx)
		require.NoError(t, err)
		_, err = locked.Exec(f.ctx, `LOCK TABLE tool_effect IN SHARE MODE`)
		require.NoError(t, err)
		_, err = h.Do(f.ctx, call("locked"), in{3})
		require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
		require.Zero(t, pool.Stat().AcquiredConns())
		require.NoError(t, locked.Rollback(f.ctx))
	})
}

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
	require.Equal(t, 1, f.steps.count(external.EventRecorded))
	require.Equal(t, external.Done, f.lookup("k").State)
	require.NoError(t, f.tools.Close(f.ctx))
}

// lockTimeouts has one for each statement that gave up waiting for a lock.
type lockTimeouts chan struct{}

func (l lockTimeouts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (l lockTimeouts) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l lockTimeouts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (l lockTimeouts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if server, ok := errors.AsType[*pgconn.PgError](data.Err); ok && server.Code == "55P03" {
		l <- struct{}{}
	}
}

func (l lockTimeouts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
