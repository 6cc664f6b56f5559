package dedup_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestDo is the promise: a call takes effect once, whatever becomes of its answer, and
// every caller gets one result. internal/contract tries it in every way.
func TestDo(t *testing.T) {
	t.Parallel()

	t.Run("FirstThenReplay", func(t *testing.T) {
		t.Parallel()
		desk := newDesk(t)
		first, err := desk.open()
		require.NoError(t, err)
		require.False(t, first.Replayed)
		require.Equal(t, Ticket{ID: 1, Title: "printer on fire"}, first.Value)
		require.Equal(t, 1, first.Attempts)

		again, err := desk.open()
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, first.Value, again.Value)
		require.True(t, first.CreatedAt.Equal(again.CreatedAt))
		desk.requireRows(t, 1, 1)
	})

	// The COMMIT takes place, and the connection breaks before it is answered.
	t.Run("LostAnswer", func(t *testing.T) {
		t.Parallel()
		desk := newDesk(t)
		lost := desk.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		result, err := desk.open()
		require.NoError(t, err)
		require.Equal(t, 1, lost.Count())
		require.True(t, result.Recovered)
		require.Equal(t, 1, result.Value.ID)
		desk.requireRows(t, 1, 1)
	})

	// The connection breaks before the COMMIT arrives, so the call runs again.
	t.Run("FailureBefore", func(t *testing.T) {
		t.Parallel()
		desk := newDesk(t)
		lost := desk.proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
		result, err := desk.open()
		require.NoError(t, err)
		require.Equal(t, 1, lost.Count())
		require.False(t, result.Replayed)
		require.Equal(t, 2, result.Value.ID, "the second run")
		desk.requireRows(t, 1, 1)
	})

	// An error of the effect takes back what the effect wrote, and is no answer.
	t.Run("EffectFails", func(t *testing.T) {
		t.Parallel()
		desk := newDesk(t)
		failure := errors.New("out of paper")
		_, err := dedup.Do(t.Context(), desk.d, desk.call, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
			if _, err := openTicket(ctx, tx, desk.in); err != nil {
				return Ticket{}, err
			}
			return Ticket{}, failure
		})
		require.ErrorIs(t, err, failure)
		desk.requireRows(t, 0, 0)
		result, err := desk.open()
		require.NoError(t, err)
		require.False(t, result.Replayed)
		desk.requireRows(t, 1, 1)
	})

	// Two Dedupers stand for two processes: they share nothing but the table.
	t.Run("Race", func(t *testing.T) {
		t.Parallel()
		desk := newDesk(t)
		other := *desk
		var err error
		other.d, err = dedup.New(desk.pool, nil)
		require.NoError(t, err)

		var results [20]dedup.Result[Ticket]
		var errs [20]error
		var callers sync.WaitGroup
		for i := range results {
			callers.Go(func() { results[i], errs[i] = []*helpDesk{desk, &other}[i%2].open() })
		}
		callers.Wait()
		ran := 0
		for i, result := range results {
			require.NoError(t, errs[i])
			require.Equal(t, results[0].Value, result.Value)
			if !result.Replayed {
				ran++
			}
		}
		require.Equal(t, 1, ran)
		desk.requireRows(t, 1, 1)
	})
}

func TestPoolAndOptions(t *testing.T) {
	t.Parallel()
	desk := newDesk(t)
	d, err := dedup.New(desk.pool, &dedup.Options{Retention: dedup.Retention{Result: 7 * 24 * time.Hour}})
	require.NoError(t, err)
	require.Same(t, desk.pool, d.Pool())
	opts := d.Options()
	require.Equal(t, "public", opts.Schema, "with the defaults filled in")
	require.Equal(t, dedup.Retention{Result: 7 * 24 * time.Hour, Tombstone: 30 * 24 * time.Hour}, opts.Retention)
	opts.Schema = "other"
	require.Equal(t, "public", d.Options().Schema, "a copy")
}

// helpDesk opens tickets, over a proxy that breaks what it is asked to.
type helpDesk struct {
	proxy *faultproxy.Proxy
	pool  *pgxpool.Pool
	d     *dedup.Deduper
	in    OpenTicket
	call  dedup.Call
}

func newDesk(t *testing.T) *helpDesk {
	t.Helper()
	db := pgtest.New(t)
	proxy, err := faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	pool, err := pgxpool.New(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), `CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	in := OpenTicket{Title: "printer on fire"}
	return &helpDesk{proxy, pool, d, in, dedup.Call{Scope: "acme", Tool: "open_ticket", Key: "k", Args: in}}
}

// open makes the same call each time.
func (h *helpDesk) open() (dedup.Result[Ticket], error) {
	return dedup.Do(context.Background(), h.d, h.call, func(ctx context.Context, tx pgx.Tx) (Ticket, error) {
		return openTicket(ctx, tx, h.in)
	})
}

func (h *helpDesk) requireRows(t *testing.T, tickets, records int) {
	t.Helper()
	require.Equal(t, tickets, exampleCount(h.pool, "tickets"))
	require.Equal(t, records, exampleCount(h.pool, "tool_dedup"))
}

// exampleDatabase returns a pool to a database of an example's own, which has
// the tool_dedup table and what setup creates. done closes and drops it.
func exampleDatabase(setup ...string) (pool *pgxpool.Pool, done func()) {
	ctx := context.Background()
	db, err := pgtest.Create(ctx)
	exampleMust(err)
	pool, err = pgxpool.New(ctx, db.URL)
	exampleMust(err)
	_, err = pool.Exec(ctx, strings.Join(setup, ";\n"))
	exampleMust(err)
	return pool, func() {
		pool.Close()
		exampleMust(db.Drop(ctx))
	}
}

// exampleTimePasses makes every record older, as if the time given had passed.
func exampleTimePasses(pool *pgxpool.Pool, interval string) {
	_, err := pool.Exec(context.Background(), `
		UPDATE tool_dedup
		SET created_at = created_at - $1::text::interval,
		    expires_at = expires_at - $1::text::interval,
		    forget_at = forget_at - $1::text::interval`, interval)
	exampleMust(err)
}

// exampleCount returns the number of rows of a table.
func exampleCount(pool *pgxpool.Pool, table string) (n int) {
	exampleMust(pool.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
