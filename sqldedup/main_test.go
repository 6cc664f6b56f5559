package sqldedup_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is a database with a table of notes.
type bundle struct {
	ctx  context.Context
	pool *pgxpool.Pool
	d    *dedup.Deduper
}

func setup(t *testing.T) bundle {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY, text text NOT NULL UNIQUE)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	return bundle{ctx: t.Context(), pool: pool, d: d}
}

// notes returns the committed texts.
func (b bundle) notes(t *testing.T) []string {
	t.Helper()
	var notes []string
	require.NoError(t, b.pool.QueryRow(b.ctx, `SELECT coalesce(array_agg(text ORDER BY id), '{}') FROM notes`).Scan(&notes))
	return notes
}

// state returns the recorded state of a call.
func (b bundle) state(t *testing.T, key string) dedup.State {
	t.Helper()
	at, err := b.d.Lookup(b.ctx, "acme", "add_note", key)
	require.NoError(t, err)
	return at.State
}

func call(key string) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "add_note", Key: key, Args: key}
}
