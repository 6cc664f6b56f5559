package calls_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
)

// needed is a line of `dedup attention --json`.
type needed struct {
	Kind, Scope, Tool, Key, Note, Do string
	PID                              int32
	Since                            time.Time
}

func kinds(all []needed) (names []string) {
	for _, n := range all {
		names = append(names, n.Kind+" "+n.Key)
	}
	return names
}

func TestAttention(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.do(t, "fine")
	require.Equal(t, outcome{exit.OK, "", "Nothing needs attention.\n"}, b.dedup(t, "attention"))

	b.doBroken(t, "broken")
	got := b.dedup(t, "attention")
	require.Equal(t, exit.Failed, got.code)
	require.Equal(t, "dedup: 1 entry needs attention\n", got.errOut)
	require.Regexp(t, `^broken: acme refund broken\n  since         .+\)\n  note          .+\n  do            find out what it did, repair that, then: dedup reset --reason … acme refund broken; if it happened, in place of that: dedup resolve --happened … --reason … acme refund broken\n$`, got.out)

	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, ref, twice)
		VALUES ('acme', 'pay', 'p', 'parked', 7, 0, false, '', now(), now() - interval '2 hours', NULL, NULL),
		       ('acme', 'pay', 't', 'done', 8, 0, false, '', now(), now() - interval '1 hour', 'ch_1', 'ch_2')`)
	b.exec(t, `UPDATE tool_dedup SET expires_at = now() - interval '2 hours' WHERE key = 'fine'`)
	release := b.hold(t, "held")
	all := fine[needed](t, b, exit.Failed, "attention", "--older-than", "0s")
	require.Equal(t, []string{"broken broken", "parked p", "twice t", "in_flight ", "sweep "}, kinds(all))
	require.Contains(t, all[1].Do, "dedup resolve --fence 7 … acme pay p")
	require.Equal(t, "ch_1 and ch_2", all[2].Note)
	require.Contains(t, all[2].Do, "dedup resolve --fence 8 --cleared … acme pay t")
	require.Positive(t, all[3].PID)
	require.Contains(t, all[3].Note, "idle in transaction")
	require.Contains(t, all[3].Do, "pg_terminate_backend")
	require.Greater(t, time.Since(all[4].Since), time.Hour)
	require.NotContains(t, kinds(fine[needed](t, b, exit.Failed, "attention", "--older-than", "1h")), "in_flight ")
	release()

	// An entry that was dealt with is no longer listed.
	require.Equal(t, exit.OK, b.dedup(t, "reset", "acme", "refund", "broken", "--reason", "repaired").code)
	b.exec(t, `DELETE FROM tool_effect; UPDATE tool_dedup SET expires_at = now() + interval '1 hour'`)
	require.Equal(t, exit.OK, b.dedup(t, "attention").code)
	b.do(t, "broken")
	require.Equal(t, exit.OK, b.dedup(t, "attention").code, "another record")
}

// What is in flight is found in either order, and an attempt outside the database with its name.
func TestAttentionInFlight(t *testing.T) {
	t.Parallel()

	for _, engine := range []string{"postgres", "other"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			b := setupOn(t, engine)
			defer b.hold(t, "held")()
			b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, due_at, sent_at, tries, looked, fingerprint, created_at, changed_at)
				VALUES ('acme', 'pay', 'p', 'running', 7, now() + interval '1 hour', now() - interval '2 minutes', 1, false, '', now() - interval '3 minutes', now())`)
			all := fine[needed](t, b, exit.Failed, "attention", "--older-than", "0s")
			require.Equal(t, []string{"in_flight p", "in_flight "}, kinds(all))
			require.Equal(t, "pay", all[0].Tool)
			require.Contains(t, all[0].Do, "wait")
			require.Contains(t, all[1].Note, "SELECT 'account-4711'")
			require.Contains(t, all[1].Do, "pg_terminate_backend")
			require.Equal(t, []string{"in_flight p"}, kinds(fine[needed](t, b, exit.Failed, "attention")))
			b.exec(t, `UPDATE tool_effect SET due_at = now() - interval '1 second'`)
			require.Contains(t, fine[needed](t, b, exit.Failed, "attention")[0].Do, "Recover")

			// It is told once, however old it is.
			b.exec(t, `UPDATE tool_effect SET created_at = now() - interval '2 hours'`)
			require.Equal(t, []string{"open p"}, kinds(fine[needed](t, b, exit.Failed, "attention")))
			require.Equal(t, []string{"open p"}, kinds(fine[needed](t, b, exit.Failed, "attention", "--older-than", "3h")))
			b.exec(t, `UPDATE tool_effect SET state = 'pending', created_at = now() - interval '2 minutes'`)
			require.Equal(t, exit.OK, b.dedup(t, "attention").code, "it may wait for its turn")
		})
	}
}

// A claim that an effect committed is broken, and is found.
func TestAttentionClaimFirst(t *testing.T) {
	t.Parallel()

	b := setupOn(t, "other")
	b.doBroken(t, "k")
	require.Equal(t, []string{"broken k"}, kinds(fine[needed](t, b, exit.Failed, "attention")))
}

func TestAttentionLimits(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	for _, key := range []string{"a", "b", "c"} {
		b.doBroken(t, key)
	}
	got := b.dedup(t, "attention", "--limit", "2")
	require.Equal(t, exit.Failed, got.code)
	require.Equal(t, "There are more entries than are listed: broken records.\ndedup: 2 entries need attention\n", got.errOut)

	// Without the audit the others are looked at.
	b.exec(t, `DROP TABLE tool_dedup_audit`)
	b.exec(t, `UPDATE tool_dedup SET forget_at = now() - interval '2 hours' WHERE key = 'a'`)
	got = b.dedup(t, "attention")
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.out, "sweep\n")
	require.Contains(t, got.errOut, "Not checked: broken records.")
}

// Nothing that is read here can be changed by it.
func TestReadingIsReadOnly(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.do(t, "k")
	b.doBroken(t, "broken")
	state := func() (all []string) {
		rows, err := b.pool.Query(t.Context(), `SELECT ctid || ' ' || xmin FROM tool_dedup UNION ALL SELECT ctid || ' ' || xmin FROM tool_dedup_audit ORDER BY 1`)
		require.NoError(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return slices.Clone(all)
	}
	before := state()
	for _, args := range [][]string{{"list", "--scope", "acme", "--tool", "refund"}, {"show", "acme", "refund", "k"}, {"attention"}, {"audit"}} {
		require.NotEqual(t, exit.Misused, b.dedup(t, args...).code)
	}
	require.Equal(t, before, state())
}
