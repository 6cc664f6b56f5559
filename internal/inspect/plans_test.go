package inspect

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// Whatever a command reads of a large table it reads by an index, with statistics and without,
// and stops.
func TestPlans(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	exec(`ALTER TABLE tool_dedup SET (autovacuum_enabled = false);
		INSERT INTO tool_dedup SELECT 's' || n % 2, 't' || n % 3, 'k' || lpad(n::text, 8, '0'), ''::bytea, NULL,
			CASE WHEN n % 10000 = 0 THEN 'broken' ELSE 'done' END, repeat('x', 100), timestamptz '2026-01-01', now() + interval '1 day' + n * interval '1 millisecond', now() + interval '2 days'
		  FROM generate_series(1, 60000) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now(), 'ada', 'app', CASE WHEN n % 2 = 0 THEN 'reset' ELSE 'broken' END, 's' || n % 2, 't' || n % 3, 'k' || lpad(n::text, 8, '0'), 'done', timestamptz '2026-01-01', 'r'
		  FROM generate_series(1, 20000) n`)

	const table, audit = "public.tool_dedup", "public.tool_dedup_audit"
	type plan struct {
		sql     string
		args    []any
		index   string
		buffers int // that it may touch
	}
	const after = "k00040000"
	auditOf := func(s Search, before int64) plan {
		sql, args := auditSQL(audit, &s, before, 101)
		index := "tool_dedup_audit_pkey"
		if s.Key != "" {
			index = "tool_dedup_audit_identity"
		}
		return plan{sql, args, index, 2000}
	}
	of := func(l Listing, after string, last *string, buffers int) plan {
		l.Scope, l.Tool = "s0", "t0"
		sql, args := l.listSQL(table, after, last, 101)
		return plan{sql, args, "tool_dedup_pkey", buffers}
	}
	last, hash := "k00038000", Listing{KeyHash: dedup.KeyHash("k00038400")}
	var end time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(expires_at) FROM tool_dedup`).Scan(&end))
	window := func(l Listing, after moment) plan {
		l.Scope, l.Tool = "s0", "t0"
		sql, args := dueWindow{24 * time.Hour, "IS NOT NULL"}.sql(table, &l, end.Add(-2*time.Second), end, after, 101)
		return plan{sql, args, "tool_dedup_due", 4000}
	}
	stepTo := func(only, at toolPlace) plan {
		where, args := toolsAfter(only, at)
		return plan{toolSQL(table, where), args, "tool_dedup_pkey", 20}
	}
	plans := map[string]plan{
		"List":             of(Listing{}, "", nil, 400),
		"ListAfter":        of(Listing{}, after, nil, 400),
		"ListOutcome":      of(Listing{Outcome: "broken"}, after, &last, 900),
		"ListOutcomeFirst": of(Listing{Outcome: "done"}, "", nil, 400),
		"ListHash":         of(hash, after, &last, 900),
		"Since":            window(Listing{}, moment{}),
		"SinceAfter":       window(hash, moment{end.Add(-24 * time.Hour), after}),
		"SinceSearched":    {dueSearchedSQL(table, 1000), []any{end.Add(-3 * time.Second), end}, "tool_dedup_due", 1500},
		"Tools":            stepTo(toolPlace{}, toolPlace{}),
		"ToolsAfter":       stepTo(toolPlace{}, toolPlace{"s0", "t1"}),
		"ToolsOfScope":     stepTo(toolPlace{Scope: "s1"}, toolPlace{}),
		"ToolOfScope":      stepTo(toolPlace{"s1", "t1"}, toolPlace{}),
		"ScopesOfTool":     stepTo(toolPlace{Tool: "t1"}, toolPlace{"s0", "t1"}),
		"Searched":         {searchedSQL(table, "", 1000), []any{"s0", "t0"}, "tool_dedup_pkey", 2500},
		"SearchedAfter":    {searchedSQL(table, after, 1000), []any{"s0", "t0", after}, "tool_dedup_pkey", 2500},
		"Due":              {dueSQL(table), nil, "tool_dedup_due", 50},
		"Broken":           {brokenSQL(audit, table, false, 101), nil, "tool_dedup_pkey", 8000},
		"BrokenOfScope":    {brokenSQL(audit, table, true, 101), []any{[]string{"s1"}}, "tool_dedup_pkey", 8000},
		"Latest":           {latestSQL(table, 26), []any{24 * time.Hour, "", "", nil}, "tool_dedup_due", 3000},
		"LatestOfTool":     {latestSQL(table, 26), []any{24 * time.Hour, "t1", "done", []string{"s0"}}, "tool_dedup_due", 3000},
		"InFlight":         {inFlightSQL(101), []any{table}, "pg_lock_status", 50},
		"Audit":            auditOf(Search{}, 0),

		"AuditAfter":      auditOf(Search{}, 10000),
		"AuditOfKey":      auditOf(Search{Scope: "s0", Tool: "t0", Key: "k00000006"}, 0),
		"AuditOfKeyAfter": auditOf(Search{Scope: "s0", Tool: "t0", Key: "k00000006"}, 10000),
	}
	ofScopes := auditOf(Search{Scopes: []string{"s0"}}, 0)
	ofScopes.index = "tool_dedup_audit_" // either, by the share that these scopes have
	plans["AuditOfScopes"] = ofScopes
	scanned, touched := regexp.MustCompile(`Seq Scan on tool_(dedup|dedup_audit)\b`), regexp.MustCompile(`shared (?:hit=(\d+))?(?: ?read=(\d+))?`)
	for _, statistics := range []string{"no statistics", "ANALYZE"} {
		if statistics == "ANALYZE" {
			exec(`ANALYZE tool_dedup; ANALYZE tool_dedup_audit`)
		}
		for name, p := range plans {
			rows, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+p.sql, append([]any{pgx.QueryExecModeExec}, p.args...)...)
			require.NoError(t, err, name)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err, name)
			text := name + " with " + statistics + "\n"
			for _, line := range lines {
				text += line + "\n"
			}
			require.NotRegexp(t, scanned, text)
			require.Contains(t, text, p.index, text)
			buffers := 0
			if match := touched.FindStringSubmatch(text); match != nil {
				for _, n := range match[1:] {
					some, _ := strconv.Atoi(n)
					buffers += some
				}
			}
			require.Positive(t, buffers, text)
			require.Less(t, buffers, p.buffers, text)
		}
	}
}
