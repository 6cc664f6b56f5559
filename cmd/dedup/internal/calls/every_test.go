package calls_test

import (
	"context"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// Every list is read a page at a time, and says how to go on.
func TestPages(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `
		INSERT INTO tool_dedup SELECT 'acme', 'it''s', 'k' || lpad(n::text, 2, '0'), ''::bytea, NULL, 'done', '1', now() - n * interval '1 minute', now() - n * interval '1 minute' + interval '1 day', now() - n * interval '1 minute' + interval '2 days'
		  FROM generate_series(1, 25) n;
		INSERT INTO tool_dedup SELECT 's' || n, 'book', 'k', ''::bytea, NULL, 'done', '1', now(), now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 25) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now(), 'ada', 'app', 'reset', CASE WHEN n % 2 = 0 THEN 'other' ELSE 'acme' END, 't', 'k' || n, 'done', now(), 'r' FROM generate_series(1, 50) n;
		-- Several are of one moment, as after an outage.
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, due_at)
		SELECT 'acme', 'pay', state || n, state, n, 0, false, ''::bytea, timestamptz '2026-01-01' + (n / 10) * interval '1 microsecond', timestamptz '2026-01-01' + (n / 10) * interval '1 microsecond', due
		  FROM generate_series(1, 25) n, (VALUES ('parked', NULL), ('pending', now())) AS of (state, due)`)
	for more, args := range map[string][]string{
		`dedup list --scope acme --tool 'it'\''s'`:            {"list", "--scope", "acme", "--tool", "it's"},
		`dedup list --scope acme --tool 'it'\''s' --since 7d`: {"list", "--scope", "acme", "--tool", "it's", "--since", "7d"},
		"dedup list --tool book":                              {"list", "--tool", "book"},
		"dedup audit --scope acme":                            {"audit", "--scope", "acme"},
		"dedup parked":                                        {"parked"},
		"dedup parked --open --older-than 2h":                 {"parked", "--open", "--older-than", "2h"},
	} {
		seen, after := map[string]bool{}, ""
		for _, size := range []int{10, 10, 5} {
			page := append(args, "--limit", "10", "--after", after)
			got := b.dedup(t, page...)
			entries := fine[struct{ Scope, Tool, Key, Cursor string }](t, b, exit.OK, page...)
			require.Len(t, entries, size, more)
			for _, e := range entries {
				name := e.Scope + e.Tool + e.Key
				require.False(t, seen[name], name)
				seen[name], after = true, e.Cursor
			}
			if size == 10 {
				require.Contains(t, got.errOut, "Next page: "+more+" --after "+after+"\n")
			} else {
				require.NotContains(t, got.errOut, "Next page")
			}
		}
		end := b.dedup(t, append(args, "--after", after)...)
		require.Empty(t, end.out)
		require.Contains(t, end.errOut, "There are no more entries.\n")
		require.Equal(t, exit.Misused, b.dedup(t, append(args, "--after", "x y")...).code)
		other := "audit"
		if args[0] == other {
			other = "parked"
		}
		require.Equal(t, exit.Misused, b.dedup(t, other, "--after", after).code, "a cursor of another list")
	}
}

// A command line that cannot be carried out is told before a database is asked, and prints no
// password.
func TestMisused(t *testing.T) {
	t.Parallel()

	refund := []string{"list", "--scope", "acme", "--tool", "refund"}
	reset, resolve := []string{"reset", "acme", "refund", "k"}, []string{"resolve", "acme", "pay", "k", "--reason", "r"}
	with := func(line []string, more ...string) []string { return slices.Concat(line, more) }
	for _, args := range [][]string{
		{"attention", "x"}, {"attention", "--limit", "0"}, {"attention", "--older-than", "-1s"},
		{"audit", "x"}, {"audit", "--key", "k"}, {"audit", "--scope", "s", "--key", "k"}, {"audit", "--limit", "0"},
		{"show", "acme", "refund"}, {"show", "acme", "refund", "k", "--key-hash", "0123456789abcdef"}, {"show", "acme", "refund", "--key-hash", "0123"},
		{"list", "--since", "1h"}, {"list", "--scope", "acme", "--outcome", "done"}, {"list", "--tool", "refund", "--key-hash", "0123456789abcdef"},
		with(refund, "--since", "0"), with(refund, "--since", "-1h"), with(refund, "--since", "soon"), with(refund, "--key-hash", "0123456789ABCDEF"),
		with(refund, "now"), with(refund, "--outcome", "good"), with(refund, "--limit", "0"), with(refund, "--timeout", "0s"),
		{"parked", "now"}, {"parked", "--fast"}, {"parked", "--limit", "0"}, {"parked", "--limit", "1001"}, {"parked", "--limit", "many"},
		{"parked", "--timeout", "0s"}, {"parked", "--schema", ""}, {"parked", "--database-url", "postgres://user:s3cret@localhost:port/db"},
		{"parked", "--older-than", "1h"}, {"parked", "--open", "--older-than", "-1h"},
		{"erase", "--reason", "r"}, {"erase", "--scope", "acme", "--yes"}, {"erase", "acme", "--reason", "r"}, {"erase", "--scope", "a\nb", "--reason", "r", "--yes", "--timeout", "0s"},
		{"export"}, {"export", "--tool", "refund"}, {"export", "--scope", "acme", "--timeout", "0s"},
		{"reset"}, reset, with(reset, "--reason", ""), with(reset, "--reason", "r", "--created-at", "yesterday"),
		{"resolve"}, {"resolve", "acme", "pay"}, with(resolve, "more", "--never"), {"resolve", "acme", "pay", "k", "--never"},
		{"resolve", "acme", "pay", "k", "--never", "--reason", ""}, resolve, with(resolve, "--never", "--refuse"),
		with(resolve, "--never", "--happened", "{}"), with(resolve, "--happened", ""), with(resolve, "--happened", "{id:1}"),
		with(resolve, "--happened", "\"\xff\""), with(resolve, "--never", "--fence", "x"), with(resolve, "--never", "--timeout", "0s"),
		{"show"}, {"show", "acme", "refund"}, {"show", "a", "b", "c", "d"}, {"show", "a", "b", "c", "--timeout", "0s"},
		{"stats", "x"}, {"stats", "--since", "0s"}, {"stats", "--since", "337h"}, {"stats", "--by", "scope"}, {"stats", "--timeout", "0s"},
		{"key"}, {"key", "intent"}, {"key", "intent", ""}, {"key", "tool-call", "s", "4"}, {"key", "tool-call", "s", "four", "id"}, {"key", "tool-call", "s", "4", "null"},
		{"key", "tool-call-args", "s", "4", "add", "{"}, {"key", "args", "s"}, {"key", "given", "k", "--at", "today"}, {"key", "given", "k", "--at", "1960-01-01T00:00:00Z"},
	} {
		line := args
		if args[0] != "key" { // which asks no database
			line = append([]string{args[0], "--database-url=postgres://localhost/db"}, args[1:]...)
		}
		got := run(t.Context(), line...)
		require.Equal(t, exit.Misused, got.code, "%v: %s", args, got.errOut)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, "--help` for help")
		require.NotContains(t, got.errOut, "s3cret")
	}
}

// Names that no call has are found out by the library.
func TestNoSuchName(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	for _, args := range [][]string{{"show", "acme", "refund", ""}, {"reset", "acme", "refund", "", "--reason", "r"}, {"resolve", "acme", "pay", "", "--never", "--reason", "r"}} {
		got := b.dedup(t, args...)
		require.Equal(t, exit.Misused, got.code, args)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, "--help` for help")
	}
}

// A database that cannot be read is an error that says what to do, and prints no password.
func TestUnreadable(t *testing.T) {
	t.Parallel()

	b, empty := setup(t, nil), pgtest.NewEmpty(t).URL
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_dedup, tool_dedup_audit, tool_dedup_stat, tool_effect`)
	require.NoError(t, err)
	const migrate = "; `dedup migrate up` makes "
	for _, c := range []struct {
		args    []string
		missing string
	}{
		{[]string{"attention"}, "the sweep: "},
		{[]string{"audit"}, migrate},
		{[]string{"erase", "--scope", "acme"}, migrate},
		{[]string{"export", "--scope", "acme"}, migrate},
		{[]string{"list"}, migrate},
		{[]string{"list", "--scope", "acme", "--tool", "refund"}, migrate},
		{[]string{"parked"}, migrate},
		{[]string{"resolve", "acme", "pay", "k", "--never", "--reason", "r"}, migrate},
		{[]string{"show", "acme", "refund", "k"}, `there is no table "public"."tool_dedup"` + migrate},
		{[]string{"stats"}, migrate},
	} {
		fails := func(why, url string, more ...string) {
			got := run(t.Context(), slices.Concat(c.args, []string{"--database-url", url}, more)...)
			require.Equal(t, exit.Failed, got.code, c.args)
			require.Contains(t, got.errOut, why, c.args)
			require.NotContains(t, got.errOut, "migrations.Check")
			require.NotContains(t, got.errOut, "s3cret")
		}
		fails(c.missing, empty)
		fails("dedup: connecting: ", "postgres://user:s3cret@127.0.0.1:1/db")
		why := "SQLSTATE 57014"
		if c.args[0] == "show" || c.args[0] == "resolve" { // which the library bounds
			why = "context deadline exceeded"
		}
		fails(why, b.db.URL, "--timeout", "50ms")
	}
}

// The tables may be in any schema, and an application's URL may have settings of its pool.
func TestSchema(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `CREATE SCHEMA "My app"; ALTER TABLE tool_dedup SET SCHEMA "My app"; ALTER TABLE tool_effect SET SCHEMA "My app"`)
	for _, args := range [][]string{{"list"}, {"parked"}, {"show", "acme", "refund", "k"}} {
		require.Equal(t, exit.Failed, b.dedup(t, args...).code)
		require.Equal(t, exit.OK, b.dedup(t, append(args, "--schema", "My app")...).code)
	}
	u, err := url.Parse(pgtest.New(t).URL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("pool_max_conns", "7")
	query.Set("pool_min_conns", "3")
	u.RawQuery = query.Encode()
	require.Equal(t, exit.OK, run(t.Context(), "parked", "--database-url", u.String()).code)
}
