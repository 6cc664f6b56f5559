package tool_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

type ticketIn struct {
	Title string `json:"title"`
	Note  string `json:"note,omitempty" dedup:"ignore"`
}

type ticket struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
}

// bundle is a registry on a database of its test, with a table tickets.
type bundle struct {
	pool  *pgxpool.Pool
	d     *dedup.Deduper
	tools *tool.Registry
	runs  atomic.Int64 // runs of createTicket
}

func setup(t *testing.T, opts *dedup.Options, tools *tool.Options) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.New(t).Pool(t)}
	b.exec(t, `CREATE TABLE tickets (id bigint GENERATED ALWAYS AS IDENTITY, title text)`)
	var err error
	b.d, err = dedup.New(b.pool, opts)
	require.NoError(t, err)
	b.tools = tool.NewRegistry(b.d, tools)
	return b
}

func (b *bundle) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// count returns the number of rows of a table.
func (b *bundle) count(t *testing.T, table string) (n int) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// createTicket is the Run of most tools in these tests.
func (b *bundle) createTicket(ctx context.Context, tx pgx.Tx, in ticketIn) (out ticket, err error) {
	b.runs.Add(1)
	err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id, title`, in.Title).Scan(&out.ID, &out.Title)
	return out, err
}

// add registers createTicket under a name and a class.
func (b *bundle) add(t *testing.T, name string, class tool.Class, change ...func(*tool.Tool[ticketIn, ticket])) {
	t.Helper()
	made := tool.Tool[ticketIn, ticket]{Name: name, Class: class, Run: b.createTicket}
	for _, f := range change {
		f(&made)
	}
	require.NoError(t, b.tools.Add(made))
}

// call returns an invocation by acme in session s.
func call(name, key, args string) tool.Invocation {
	return tool.Invocation{Scope: "acme", Session: "s", Tool: name, Key: key, Args: json.RawMessage(args)}
}

func (b *bundle) invoke(t *testing.T, inv tool.Invocation) tool.Answer {
	t.Helper()
	answer, err := b.tools.Invoke(t.Context(), inv)
	require.NoError(t, err)
	return answer
}

func (b *bundle) fails(t *testing.T, inv tool.Invocation) error {
	t.Helper()
	_, err := b.tools.Invoke(t.Context(), inv)
	require.Error(t, err)
	return err
}
