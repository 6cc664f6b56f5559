package inspect

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// plan is the expected plan of a query: an index, and the most buffers.
type plan struct {
	query
	index   string
	buffers int
}

var (
	scanned = regexp.MustCompile(`Seq Scan on tool_(dedup|dedup_audit|dedup_stat)\b`)
	touched = regexp.MustCompile(`shared (?:hit=(\d+))?(?: ?read=(\d+))?`)
)

func (p plan) require(t *testing.T, pool *pgxpool.Pool, name string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+p.text("public"), pgx.QueryExecModeExec, p.args)
	require.NoError(t, err, name)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err, name)
	text := name + "\n" + strings.Join(lines, "\n")
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

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// TestPlans reads large tables by an index, with statistics and without, and reads a bounded number
// of rows.
func TestPlans(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	exec(t, pool, `ALTER TABLE tool_dedup SET (autovacuum_enabled = false);
		INSERT INTO tool_dedup SELECT 's' || n % 2, 't' || n % 3, 'k' || lpad(n::text, 8, '0'), ''::bytea, NULL,
			CASE WHEN n % 10000 = 0 THEN 'broken' ELSE 'done' END, repeat('x', 100), timestamptz '2026-01-01', now() + interval '1 day' + n * interval '1 millisecond', now() + interval '2 days'
		  FROM generate_series(1, 60000) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now(), 'ada', 'app', CASE WHEN n % 2 = 0 THEN 'reset' ELSE 'broken' END, 's' || n % 2, 't' || n % 3, 'k' || lpad(n::text, 8, '0'), 'done', timestamptz '2026-01-01', 'r'
		  FROM generate_series(1, 20000) n;
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT 's' || n % 2, 't' || n % 3, 'k' || lpad(n::text, 8, '0'), 'done', n, 0, false, '', now(), now() FROM generate_series(1, 20000) n`)
	var end time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT max(expires_at) FROM tool_dedup`).Scan(&end))

	const after, last = "k00040000", "k00038000"
	of := Filter{Scope: "s0", Tool: "t0"}
	broken, done, hash := of, of, of
	broken.Outcome, done.Outcome, hash.KeyHash = "broken", "done", dedup.KeyHash("k00038400")
	window, from := dueWindow{24 * time.Hour, "IS NOT NULL"}, end.Add(-2*time.Second)
	key := Filter{Scope: "s0", Tool: "t0", Key: "k00000006"}
	s1 := []string{"s1"}
	later := place{At: time.Now(), ID: "00000000-0000-0000-0000-000000000000"}
	plans := map[string]plan{
		"List":             {of.query("", "", 101), "tool_dedup_pkey", 400},
		"ListAfter":        {of.query(after, "", 101), "tool_dedup_pkey", 400},
		"ListOutcome":      {broken.query(after, last, 101), "tool_dedup_pkey", 900},
		"ListOutcomeFirst": {done.query("", "", 101), "tool_dedup_pkey", 400},
		"ListHash":         {hash.query(after, last, 101), "tool_dedup_pkey", 900},
		"Searched":         {of.searchEnd("", 1000), "tool_dedup_pkey", 2500},
		"SearchedAfter":    {of.searchEnd(after, 1000), "tool_dedup_pkey", 2500},
		"Since":            {window.query(&of, from, end, place{}, 101), "tool_dedup_due", 4000},
		"SinceAfter":       {window.query(&hash, from, end, place{At: end.Add(-24 * time.Hour), Key: after}, 101), "tool_dedup_due", 4000},
		"SinceSearched":    {dueEnd(end.Add(-3*time.Second), end, 1000), "tool_dedup_due", 1500},
		"Latest":           {(&Filter{}).latest(dedup.Retention{Result: 24 * time.Hour}, 26), "tool_dedup_due", 3000},
		"LatestOfTool":     {(&Filter{Tool: "t1", Outcome: "done", Scopes: []string{"s0"}}).latest(dedup.Retention{Result: 24 * time.Hour}, 26), "tool_dedup_due", 3000},
		"Tools":            {nextTool(ScopedTool{}, place{}), "tool_dedup_pkey", 20},
		"ToolsAfter":       {nextTool(ScopedTool{}, place{Scope: "s0", Tool: "t1"}), "tool_dedup_pkey", 20},
		"ToolsOfScope":     {nextTool(ScopedTool{Scope: "s1"}, place{}), "tool_dedup_pkey", 20},
		"ToolOfScope":      {nextTool(ScopedTool{Scope: "s1", Tool: "t1"}, place{}), "tool_dedup_pkey", 20},
		"ScopesOfTool":     {nextTool(ScopedTool{Tool: "t1"}, place{Scope: "s0", Tool: "t1"}), "tool_dedup_pkey", 20},
		"ScopeWithTool":    {toolOf("s1", "t1"), "tool_dedup_pkey", 20},
		"Due":              {oldestDue(), "tool_dedup_due", 50},
		"Broken":           {stillBroken(nil, 101), "tool_dedup_pkey", 8000},
		"BrokenOfScope":    {stillBroken(s1, 101), "tool_dedup_pkey", 8000},
		"InFlight":         {sessionsInFlight("public", 101), "pg_lock_status", 50},
		"Audit":            {(&Filter{}).audit(place{}, 101), "tool_dedup_audit_pkey", 2000},
		"AuditAfter":       {(&Filter{}).audit(later, 101), "tool_dedup_audit_pkey", 2000},
		"OperationOfHash":  {hash.operation(10000), "tool_effect_pkey", 900},
		"AuditOfKey":       {key.audit(place{}, 101), "tool_dedup_audit_identity", 2000},
		"AuditOfKeyAfter":  {key.audit(later, 101), "tool_dedup_audit_identity", 2000},
		// Either index, depending on the share of these scopes.
		"AuditOfScopes": {(&Filter{Scopes: s1}).audit(place{}, 101), "tool_dedup_audit_", 2000},
	}
	for name, p := range plans {
		p.require(t, pool, name+" with no statistics")
	}
	exec(t, pool, `ANALYZE tool_dedup; ANALYZE tool_dedup_audit`)
	for name, p := range plans {
		p.require(t, pool, name+" with statistics")
	}
}

// TestCountsPlan reads counts by time, whatever else was recorded.
func TestCountsPlan(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	exec(t, pool, `INSERT INTO tool_dedup_stat SELECT now() - n * interval '1 minute', 'a', 't' || t, 'executed', 1, 1, 0 FROM generate_series(1, 14 * 24 * 60) n, generate_series(1, 3) t; ANALYZE tool_dedup_stat`)
	plan{slicesOf(time.Hour, 1), "tool_dedup_stat_pkey", 50}.require(t, pool, "one part")
	plan{slicesOf(time.Hour, 48), "tool_dedup_stat_pkey", 50}.require(t, pool, "48 parts")
}
