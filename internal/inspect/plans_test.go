package inspect

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

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
			CASE WHEN n % 10000 = 0 THEN 'broken' ELSE 'done' END, repeat('x', 100), timestamptz '2026-01-01', now() + interval '1 day', now() + interval '2 days'
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
	plans := map[string]plan{
		"List":             {listSQL(table, "", false, false, 101), []any{"s0", "t0"}, "tool_dedup_pkey", 400},
		"ListAfter":        {listSQL(table, after, false, false, 101), []any{"s0", "t0", after}, "tool_dedup_pkey", 400},
		"ListOutcome":      {listSQL(table, after, true, true, 101), []any{"s0", "t0", after, "broken", "k00038000"}, "tool_dedup_pkey", 900},
		"ListOutcomeFirst": {listSQL(table, "", true, false, 101), []any{"s0", "t0", "done"}, "tool_dedup_pkey", 400},
		"Searched":         {searchedSQL(table, "", 1000), []any{"s0", "t0"}, "tool_dedup_pkey", 2500},
		"SearchedAfter":    {searchedSQL(table, after, 1000), []any{"s0", "t0", after}, "tool_dedup_pkey", 2500},
		"Due":              {dueSQL(table), nil, "tool_dedup_due", 50},
		"Broken":           {brokenSQL(audit, table, false, 101), nil, "tool_dedup_pkey", 8000},
		"BrokenOfScope":    {brokenSQL(audit, table, true, 101), []any{[]string{"s1"}}, "tool_dedup_pkey", 8000},
		"Audit":            auditOf(Search{}, 0),

		"AuditAfter":      auditOf(Search{}, 10000),
		"AuditOfKey":      auditOf(Search{Scope: "s0", Tool: "t0", Key: "k00000006"}, 0),
		"AuditOfKeyAfter": auditOf(Search{Scope: "s0", Tool: "t0", Key: "k00000006"}, 10000),
	}
	ofScopes := auditOf(Search{Scopes: []string{"s0"}}, 0)
	ofScopes.index = "tool_dedup_audit_" // either, by the share that these scopes have
	plans["AuditOfScopes"] = ofScopes
	scanned, touched := regexp.MustCompile(`Seq Scan on tool_dedup(_audit)?\b`), regexp.MustCompile(`shared (?:hit=(\d+))?(?: ?read=(\d+))?`)
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
