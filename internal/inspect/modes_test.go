package inspect

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestExecModes reads with every exec mode of the program's pool. All read the same, and times are
// in UTC.
func TestExecModes(t *testing.T) {
	t.Parallel()

	test := pgtest.New(t)
	exec(t, test.Pool(t), `
		INSERT INTO tool_dedup VALUES ('acme', 'refund', 'k', sha256('x'), NULL, 'broken', NULL, '2026-01-01', now() + interval '1 day', now() + interval '2 days');
		INSERT INTO tool_dedup SELECT 'acme', 'refund', 'k' || n, sha256('x'), NULL, 'done', '1', at, at + interval '1 day', at + interval '2 days' FROM generate_series(1, 3) n, LATERAL (SELECT now() - n * interval '1 hour') AS made (at);
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason) VALUES (now(), 'ada', 'app', 'broken', 'acme', 'refund', 'k', 'broken', '2026-01-01', 'r');
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at) VALUES ('acme', 'pay', 'k', 'parked', 7, 0, false, '', now(), now());
		INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited) VALUES (now() - interval '1 hour', 'a', 'refund', 'executed', 60, 6, 0)`)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgxpool.ParseConfig(test.URL)
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode = mode
		config.ConnConfig.RuntimeParams["timezone"] = "Asia/Tokyo"
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		defer pool.Close()
		d, err := dedup.New(pool, nil)
		require.NoError(t, err)
		tools, err := external.New(d, nil)
		require.NoError(t, err)
		db := &Database{D: d, Tools: tools, Timeout: time.Minute}
		read := func(n int, err error) {
			t.Helper()
			require.NoError(t, err, mode)
			require.Positive(t, n, mode)
		}

		all, _, err := db.Records(t.Context(), &Filter{Scope: "acme", Tool: "refund", Outcome: "done"}, "", 10)
		read(len(all.Entries), err)
		require.Equal(t, []any{"done", time.UTC}, []any{all.Entries[0].State, all.Entries[0].CreatedAt.Location()})
		first, kept, err := db.Records(t.Context(), &Filter{Scope: "acme", Tool: "refund", Since: 24 * time.Hour}, "", 1)
		read(len(kept), err)
		next, _, err := db.Records(t.Context(), &Filter{Scope: "acme", Tool: "refund", Since: 24 * time.Hour}, first.Next, 10)
		read(len(next.Entries)-1, err)
		found, err := db.Latest(t.Context(), &Filter{Scopes: []string{"acme"}}, 10)
		read(len(found), err)
		of, err := db.WithRecords(t.Context(), ScopedTool{Tool: "refund"}, "", 10)
		read(len(of.Entries), err)
		found, err = db.Greatest(t.Context(), of.Entries)
		read(len(found), err)
		lines, err := db.Audit(t.Context(), &Filter{Scopes: []string{"acme"}}, "", 10)
		read(len(lines.Entries), err)
		parked, err := db.Operations(t.Context(), false, 0, "", 10)
		read(len(parked.Entries), err)
		slices, err := db.Recorded(t.Context(), 24*time.Hour, 2)
		read(len(slices), err)
		a, err := db.Attention(t.Context(), nil, 0, 10)
		read(len(a.Needs)-1, err) // broken, parked
		require.NoError(t, a.Problem)
		call, err := db.Call(t.Context(), "acme", "refund", "k1")
		require.NoError(t, err)
		require.Equal(t, "done", call.State)
	}
}
