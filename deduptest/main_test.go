package deduptest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) {
	deduptest.Child(append(rightTools(), wrongTools()...)...)
	pgtest.Main(m)
}

const schema = `
	CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, key text NOT NULL, title text NOT NULL);
	CREATE TABLE lines (ticket int NOT NULL, line text NOT NULL);
	CREATE TABLE seen (key text PRIMARY KEY)`

// bundle is a scratch database with the tables of the tools.
type bundle struct {
	url  string
	pool *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.New(t)
	b := &bundle{url: db.URL, pool: db.Pool(t)}
	_, err := b.pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	return b
}

func countTickets(ctx context.Context, db *pgxpool.Pool) (n int, err error) {
	err = db.QueryRow(ctx, `SELECT count(*) FROM tickets`).Scan(&n)
	return n, err
}

// recorder is a TB that keeps its messages.
type recorder struct {
	t *testing.T

	mu           sync.Mutex
	logs, errors []string
	fatal        string
}

var _ deduptest.TB = (*recorder)(nil)

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.t.Context() }

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fatal = fmt.Sprintf(format, args...)
}

// allBut returns every scenario that is not given.
func allBut(wanted ...deduptest.Scenario) []deduptest.Scenario {
	return slices.DeleteFunc(deduptest.Scenarios(), func(s deduptest.Scenario) bool { return slices.Contains(wanted, s) })
}
