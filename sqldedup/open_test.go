package sqldedup_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// TestOpenDB shares four connections among a Deduper and a *sql.DB that is set to keep ten idle. No
// caller waits for ever, and the *sql.DB keeps none.
func TestOpenDB(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.MaxConns = 4 })
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	db := sqldedup.OpenDB(pool)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(10)
	db.SetMaxOpenConns(100)
	db.SetConnMaxLifetime(time.Hour)

	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			var one int
			if err := db.QueryRowContext(t.Context(), `SELECT 1`).Scan(&one); err != nil {
				t.Error(err)
			}
			if _, err := d.Lookup(t.Context(), "acme", "add_note", fmt.Sprint(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Zero(t, db.Stats().Idle)

	// A transaction keeps its connection until it ends.
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, pool.Stat().AcquiredConns())
	require.NoError(t, tx.Commit())
	require.Zero(t, pool.Stat().AcquiredConns())
}

// TestAllConnectionsInUse waits for a connection until the context ends. In each way the error has
// the number of connections in use.
func TestAllConnectionsInUse(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools, err := external.New(d, nil)
	require.NoError(t, err)
	charge, err := external.Add(tools, external.Tool[int, int]{Name: "charge", Perform: func(context.Context, external.Attempt, int) (int, error) { return 1, nil }})
	require.NoError(t, err)
	parked := external.Operation{Scope: "acme", Tool: "charge", Key: "k", State: external.StateParked}
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	db := sqldedup.OpenDB(pool)
	t.Cleanup(func() { _ = db.Close() })

	for name, wait := range map[string]func(ctx context.Context) error{
		"Database": func(ctx context.Context) error { return db.PingContext(ctx) },
		"Lookup":   func(ctx context.Context) error { _, err := d.Lookup(ctx, "acme", "add_note", "k"); return err },
		"Claim": func(ctx context.Context) error {
			_, err := charge.Do(ctx, dedup.Call{Scope: "acme", Key: "k"}, 1)
			return err
		},
		"Status":  func(ctx context.Context) error { _, err := tools.Status(ctx, "acme", "charge", "k"); return err },
		"Verdict": func(ctx context.Context) error { return tools.Resolve(ctx, parked, external.Never("not in the books")) },
		"NoKey": func(ctx context.Context) error {
			_, err := door.Once(ctx, d, "search", pgx.TxOptions{}, nil)
			return err
		},
		"ReadOnly": func(ctx context.Context) error { return inspect.ReadOnly(ctx, pool, time.Minute, nil) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err := wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.ErrorContains(t, err, "1 of the pool's 1 are in use", name)
		cancel()
	}
}
