package calls_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgbouncer"
)

// line is a line of `dedup audit --json`.
type line struct{ Actor, Role, Action, Key, Outcome, Reason string }

func TestReset(t *testing.T) {
	t.Parallel()

	for _, engine := range []string{"postgres", "other"} {
		b := setupOn(t, engine)
		args := []string{"reset", "acme", "refund", "k", "--reason", "INC-42", "--actor", "ada"}
		created := b.do(t, "k").CreatedAt
		got := b.dedup(t, append(args, "--created-at", created.Format(time.RFC3339Nano))...)
		require.Equal(t, exit.OK, got.code, got.errOut)
		require.Equal(t, "freed: its next call runs\n", got.out)
		require.Contains(t, got.errOut, "acme refund k\n  state         done\n  created       "+created.UTC().Format(time.RFC3339Nano))
		require.NotContains(t, got.errOut, "hunter2")
		require.False(t, b.do(t, "k").Replayed)

		// Without --created-at it is freed as it was read.
		freed := fine[struct {
			Key     string
			Audited bool
		}](t, b, exit.OK, args...)
		require.Len(t, freed, 1)
		require.True(t, freed[0].Audited)
		lines := fine[line](t, b, exit.OK, "audit", "--scope", "acme", "--tool", "refund", "--key", "k")
		require.Len(t, lines, 2)
		require.Equal(t, []string{"ada", "reset", "k", "done", "INC-42"}, []string{lines[0].Actor, lines[0].Action, lines[0].Key, lines[0].Outcome, lines[0].Reason})
	}
}

// Only the record that was looked at is freed.
func TestResetRefused(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	fails := func(why string, args ...string) {
		t.Helper()
		got := b.dedup(t, append([]string{"reset", "acme", "refund", "k", "--reason", "INC-42"}, args...)...)
		require.Equal(t, exit.Failed, got.code)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, why)
		require.NotContains(t, got.errOut, "--help")
	}
	fails("there is no record of acme refund k")
	release := b.hold(t, "k")
	fails("acme refund k is in flight")
	release()
	fails("is another record now", "--created-at", "2026-05-03T09:12:44.102394Z")
	require.Empty(t, fine[line](t, b, exit.OK, "audit"))

	b.exec(t, `DROP TABLE tool_dedup_audit`)
	got := b.dedup(t, "reset", "acme", "refund", "k", "--reason", "INC-42", "--json")
	require.Equal(t, exit.OK, got.code, got.errOut)
	require.Contains(t, got.out, `"audited":false`)
	require.Contains(t, got.errOut, "there is no table tool_dedup_audit")
}

func TestAudit(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	require.Equal(t, outcome{exit.OK, "", "The audit has no such entry.\n"}, b.dedup(t, "audit"))
	b.exec(t, `INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now() + n * interval '1 microsecond', 'ada', 'app', 'reset', 's' || n % 2, 't', 'k' || n, 'done', now(), E'a\nb' FROM generate_series(1, 25) n`)
	require.Len(t, fine[line](t, b, exit.OK, "audit", "--scope", "s1"), 13)
	require.Len(t, fine[line](t, b, exit.OK, "audit", "--scope", "s1", "--tool", "t", "--key", "k3"), 1)
	got := b.dedup(t, "audit", "--limit", "1")
	require.Regexp(t, `^s1 t k25\n  action        reset by ada as role app\n  at            .+\)\n  was           done of .+Z\n  reason        a b\n$`, got.out)
}

// The commands work through a pooler that uses another server connection for each transaction and
// tracks no prepared statements.
func TestThroughPooler(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	b.park(t, "order-7")
	through, err := pgbouncer.New(t, b.db.URL, "pool_mode = transaction", "server_round_robin = 1", "default_pool_size = 2").URL(b.db.URL)
	require.NoError(t, err)
	for range 3 {
		b.do(t, "k")
		for _, args := range [][]string{
			{"list", "--scope", "acme", "--tool", "refund"}, {"show", "acme", "refund", "k"},
			{"stats"}, {"audit"}, {"reset", "acme", "refund", "k", "--reason", "r"},
		} {
			got := run(t.Context(), append(args, "--database-url", through)...)
			require.Equal(t, exit.OK, got.code, "%v: %s", args, got.errOut)
		}
		require.Equal(t, exit.Failed, run(t.Context(), "attention", "--database-url", through).code)
		listed := run(t.Context(), "parked", "--json", "--database-url", through)
		require.Equal(t, exit.OK, listed.code, listed.errOut)
		op := operations(t, listed.out)[0]
		got := run(t.Context(), "resolve", "acme", "pay", op.Key, "--fence", fmt.Sprint(op.Fence), "--refuse", "--overrule", "--reason", "r", "--json", "--database-url", through)
		require.Equal(t, exit.OK, got.code, got.errOut)
		require.Greater(t, operations(t, got.out)[0].Fence, op.Fence)
	}
}
