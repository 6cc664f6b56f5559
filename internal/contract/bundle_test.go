package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// bundle is what most tests work with: a database of their own that has the
// record table and a table of effects without any unique index.
type bundle struct {
	db   *pgtest.DB
	pool *pgxpool.Pool
	d    *dedup.Deduper
}

// limit ends a test that hangs before `go test -timeout` ends them all. The time that
// parallel subtests wait for their turn counts.
const limit = 15 * time.Minute

func setup(t *testing.T, opts *dedup.Options, conf ...func(*pgxpool.Config)) (context.Context, *bundle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	db := pgtest.New(t)
	b := &bundle{db: db, pool: db.Pool(t, conf...)}
	b.exec(t, `CREATE TABLE effects (ref text NOT NULL)`)
	b.d = newDeduper(t, b.pool, opts)
	return ctx, b
}

func newDeduper(t *testing.T, pool *pgxpool.Pool, opts *dedup.Options) *dedup.Deduper {
	t.Helper()
	d, err := dedup.New(pool, opts)
	require.NoError(t, err)
	return d
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// scalar reads one value over a connection of its own.
func scalar[T any](t *testing.T, b *bundle, sql string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.db.URL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var v T
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// effects counts the effects of ref that are committed.
func (b *bundle) effects(t *testing.T, ref string) int {
	t.Helper()
	return scalar[int](t, b, `SELECT count(*) FROM effects WHERE ref = $1`, ref)
}

func (b *bundle) records(t *testing.T) int {
	t.Helper()
	return scalar[int](t, b, `SELECT count(*) FROM tool_dedup`)
}

// call is a call whose key is the test's own.
func call(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "create_ticket", Key: key, Args: map[string]any{"title": "printer on fire"}}
}

type ticket struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
}

// effect leaves one row for key and returns a ticket that tells it.
func effect(key string) dedup.Effect[ticket] {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, key)
		return ticket{ID: 7, Title: key}, err
	}
}
