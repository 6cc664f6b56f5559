package external_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// Every verdict has a line in the audit, and with it who said so.
func TestVerdictsAreAudited(t *testing.T) {
	t.Parallel()

	verdicts := map[string]external.Verdict{
		"happened": external.Happened(out{"ch_9"}, "seen"),
		"never":    external.Never("seen"),
		"refuse":   external.Refuse("seen"),
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for action, verdict := range verdicts {
			t.Run(mode.String()+"/"+action, func(t *testing.T) {
				t.Parallel()
				f := process(t, pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
				var keys []string
				parked(f, &keys)
				op := f.lookup("k")
				stale := op
				stale.Fence--
				require.Error(t, f.tools.Resolve(f.ctx, stale, verdict.By("eve")))
				require.NoError(t, f.tools.Resolve(f.ctx, op, verdict.By("ada\x00")))

				rows, err := f.pool.Query(f.ctx, `SELECT concat_ws(' ', actor, action, scope, tool, key, outcome, reason, created_at = $1, role = session_user) FROM tool_dedup_audit`, op.CreatedAt)
				require.NoError(t, err)
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				require.Equal(t, []string{"ada " + action + " acme charge k parked seen t t"}, lines)
			})
		}
	}
}

// Without the table an operator can act all the same; without the privilege nobody does
// what is not written down.
func TestVerdictWithoutAudit(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	var keys []string
	parked(f, &keys)
	role := pgx.Identifier{"auditor_" + f.lookup("k").ProviderKey}.Sanitize()
	exec := func(sql string) {
		t.Helper()
		_, err := f.pool.Exec(context.WithoutCancel(f.ctx), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	exec(`CREATE ROLE ` + role)
	t.Cleanup(func() { exec(`DROP OWNED BY ` + role + `; DROP ROLE ` + role) })
	exec(`GRANT USAGE ON SCHEMA public TO ` + role + `; GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup, tool_effect TO ` + role + `; GRANT USAGE ON SEQUENCE tool_effect_fence TO ` + role)
	command := process(t, actingAs(t, f.pool, role))
	op := f.lookup("k")
	err := command.tools.Resolve(f.ctx, op, external.Never("not seen"))
	require.ErrorContains(t, err, "the role needs INSERT on tool_dedup_audit")
	require.Equal(t, op.Fence, f.lookup("k").Fence, "nothing is stored")

	exec(`DROP TABLE tool_dedup_audit`)
	require.NoError(t, command.tools.Resolve(f.ctx, op, external.Never("not seen")))
	require.Equal(t, external.Pending, f.lookup("k").State)
}

// actingAs is a pool on the same database whose connections act as a role.
func actingAs(t *testing.T, pool *pgxpool.Pool, role string) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET ROLE `+role)
		return err
	}
	other, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	return other
}
