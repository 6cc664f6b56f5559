package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/sqldedup"
)

// TestGrants: the GRANTs of the runbook are enough for every package, the command and the console.
// Packages that are not called here have no statements for the tables: tool, mcpdedup, grpcdedup,
// connectdedup, gormdedup, riverdedup and oteldedup reach them through those that are.
func TestGrants(t *testing.T) {
	t.Parallel()

	i := newIncident(t)
	i.grant()
	ctx, pool := t.Context(), i.pool
	require.NoError(t, migrations.Check(ctx, pool, nil))
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}

	calls := func(d *dedup.Deduper, tool string) {
		call := func(key string) dedup.Call { return dedup.Call{Scope: "acme", Tool: tool, Key: key} }
		for range 2 {
			_, err := dedup.Do(ctx, d, call("do"), fine)
			must(err)
			must(d.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, d, tx, call("tx"), fine)
				return err
			}))
			_, err = dedup.DoStatement[string](ctx, d, call("statement"), dedup.Statement{SQL: "INSERT INTO notes VALUES ('n') RETURNING text"})
			must(err)
			batch := slices.Values([]dedup.StatementCall{{Call: call("batch"), Statement: dedup.Statement{SQL: "INSERT INTO notes VALUES ('n') RETURNING text"}}})
			for outcome := range dedup.DoBatch[string](ctx, d, batch, nil) {
				must(outcome.Err)
			}
		}
		_, err := dedup.Do(ctx, d, call("broken"), commits)
		require.ErrorIs(t, err, dedup.ErrBroken)
		_, err = d.Resolve(ctx, "acme", tool, "broken", "done", dedup.ChangeOptions{Reason: "why"})
		must(err)
		_, err = d.Reset(ctx, "acme", tool, "do", dedup.ChangeOptions{Reason: "why"})
		must(err)
		_, err = d.Lookup(ctx, "acme", tool, "tx")
		must(err)
	}
	calls(i.d, "note")

	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	_, err := dedup.Do(ctx, i.d, dedup.Call{Scope: "acme", Tool: "note", Key: "sql"}, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (string, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO notes VALUES ('n')")
		return "", err
	}))
	must(err)
	middleware, err := httpdedup.New(i.d, httpdedup.Options{Scope: func(*http.Request) (string, error) { return "acme", nil }})
	must(err)
	handler := middleware.Wrap("http", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	for range 2 {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
		r.Header.Set("Idempotency-Key", `"k"`)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
	}

	// Effects outside the database: one that is done, one that is accepted, one that is parked,
	// and the audit of each.
	tools, err := external.New(i.d, nil)
	must(err)
	defer func() { _ = tools.Close(context.WithoutCancel(ctx)) }()
	pay, err := external.Add(tools, external.Tool[string, string]{
		Name: "pay", Perform: func(_ context.Context, _ external.Attempt, in string) (string, error) {
			if in == "lost" {
				return "", errors.New("the answer is lost")
			}
			return in, nil
		},
		Finish: func(ctx context.Context, tx pgx.Tx, _, _ string) error {
			_, err := tx.Exec(ctx, "INSERT INTO notes VALUES ('paid')")
			return err
		},
		Retention: dedup.Retention{Result: time.Second, Tombstone: -1},
	})
	must(err)
	outside := func(key string) dedup.Call { return dedup.Call{Scope: "acme", Key: key} }
	_, err = pay.Do(ctx, outside("order-1"), "re_1")
	must(err)
	must(i.d.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := pay.Accept(ctx, tx, outside("order-2"), "re_2")
		return err
	}))
	_, err = tools.Advance(ctx, "acme", "pay", "order-2")
	must(err)
	_, err = pay.Do(ctx, outside("order-3"), "lost")
	require.Error(t, err)
	status, err := tools.Status(ctx, "acme", "pay", "order-3")
	must(err)
	must(tools.Resolve(ctx, status.Operation, external.Happened("re_3", "seen")))
	i.sweeps()

	for _, args := range [][]string{
		{"migrate", "check"}, {"show", "acme", "note", "tx"}, {"list"}, {"list", "--scope", "acme", "--tool", "note", "--since", "1h"},
		{"attention"}, {"audit"}, {"stats"}, {"parked"}, {"parked", "--open"},
		{"show", "acme", "note", "--key-hash", dedup.KeyHash("tx")}, {"reset", "acme", "note", "tx", "--reason", "why"},
		{"export", "--scope", "acme"}, {"erase", "--scope", "acme", "--tool", "note", "--reason", "why", "--yes"},
	} {
		cmd, out, errOut := program(t, append(args, "--database-url", i.db.URL)...)
		require.NoError(t, cmd.Run(), "%v: %s%s", args, out, errOut)
	}
	doctor, out, _ := program(t, "doctor", "--database-url", i.db.URL)
	_ = doctor.Run() // a test's server may lack fsync
	require.Contains(t, out.String(), "is there, and as the migrations make it")
	require.NotContains(t, out.String(), "unknown")
	console, err := dedupweb.New(i.d, dedupweb.Options{Tools: tools, Access: func(*http.Request) dedupweb.Access {
		return dedupweb.Access{Name: "ada", Keys: true, Results: true, Act: true}
	}})
	must(err)
	for _, page := range []string{"/", "/attention", "/inflight", "/records", "/audit", "/call?scope=acme&tool=pay&key=order-3"} {
		w := httptest.NewRecorder()
		console.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, page, nil))
		require.Equal(t, http.StatusOK, w.Code, page)
		require.NotContains(t, w.Body.String(), "could not be read", page)
	}
}

func commits(ctx context.Context, tx pgx.Tx) (string, error) {
	_, err := tx.Conn().Exec(ctx, "COMMIT")
	return "", err
}

// grant switches the incident to a role that has the GRANTs of the runbook and a table of its
// application.
func (i *incident) grant() {
	i.t.Helper()
	runbook, err := os.ReadFile("../../docs/operations.md")
	require.NoError(i.t, err)
	_, block, found := strings.Cut(string(runbook), "\n### Grants\n")
	require.True(i.t, found)
	_, block, _ = strings.Cut(block, "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	require.Equal(i.t, 3, strings.Count(block, " TO app;"))
	role := pgx.Identifier{i.db.Name}.Sanitize()
	owner := i.pool
	exec := func(sql string) {
		i.t.Helper()
		_, err := owner.Exec(context.WithoutCancel(i.t.Context()), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(i.t, err)
	}
	exec("CREATE ROLE " + role + " LOGIN PASSWORD 'of a test'; CREATE TABLE notes (text text); GRANT SELECT, INSERT ON notes TO " + role + ";" +
		strings.ReplaceAll(block, " TO app;", " TO "+role+";"))
	i.t.Cleanup(func() { exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	u, err := url.Parse(i.db.URL)
	require.NoError(i.t, err)
	u.User = url.UserPassword(i.db.Name, "of a test")
	i.db.URL = u.String()
	i.pool, err = pgxpool.New(i.t.Context(), i.db.URL)
	require.NoError(i.t, err)
	i.t.Cleanup(i.pool.Close)
	i.d, err = dedup.New(i.pool, nil)
	require.NoError(i.t, err)
}
