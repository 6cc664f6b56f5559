package calls_test

import (
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/exit"
)

// known is the line of `dedup show --json`.
type known struct {
	Scope, Tool, Key, State, Fingerprint, Refusal string
	Result                                        json.RawMessage
	CreatedAt                                     time.Time `json:"created_at"`
	Sessions                                      []struct {
		PID   int32
		Waits bool
		Since time.Time
	}
	Operation *struct{ State string }
	Audit     []struct{ Action, Actor, Reason string }
}

func (b *bundle) show(t *testing.T, key string, args ...string) known {
	t.Helper()
	lines := fine[known](t, b, exit.OK, append([]string{"show", "acme", "refund", key}, args...)...)
	require.Len(t, lines, 1)
	return lines[0]
}

func TestShow(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	got := b.dedup(t, "show", "acme", "refund", "k")
	require.Equal(t, exit.OK, got.code)
	require.Regexp(t, `^acme refund k\n  state         not found\n  which means   no call .+ did not run.+ deleted\n$`, got.out)

	created := b.do(t, "k").CreatedAt
	k := b.show(t, "k")
	require.Equal(t, "done", k.State)
	require.True(t, created.Equal(k.CreatedAt))
	require.Len(t, k.Fingerprint, 64)
	require.Nil(t, k.Result, "not unless it is asked for")
	require.JSONEq(t, `"hunter2"`, string(b.show(t, "k", "--result").Result))
	got = b.dedup(t, "show", "acme", "refund", "k")
	require.NotContains(t, got.out, "hunter2")
	require.Contains(t, got.out, "  created       "+created.UTC().Format(time.RFC3339Nano)+" (")
	require.Contains(t, b.dedup(t, "show", "acme", "refund", "k", "--result").out, `  result        "hunter2"`)

	b.refuse(t, "no")
	require.Empty(t, b.show(t, "no").Refusal)
	require.Equal(t, "hunter2 declined", b.show(t, "no", "--result").Refusal)

	b.doBroken(t, "broken")
	k = b.show(t, "broken")
	require.Equal(t, "broken", k.State)
	require.Len(t, k.Audit, 1)
	require.Equal(t, "broken", k.Audit[0].Action)

	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		VALUES ('acme', 'refund', 'out', 'parked', 1, 0, false, '', now(), now())`)
	require.Equal(t, "parked", b.show(t, "out").Operation.State)
	require.Contains(t, b.dedup(t, "show", "acme", "refund", "out").out, "\noutside the database: acme refund out\n  state         parked since ")

	for _, key := range []string{"k", "out"} {
		lines := fine[known](t, b, exit.OK, "show", "acme", "refund", "--key-hash", dedup.KeyHash(key))
		require.Equal(t, key, lines[0].Key)
	}
	got = b.dedup(t, "show", "acme", "refund", "--key-hash", dedup.KeyHash("none"))
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "or its record was deleted")

	b.exec(t, `DROP TABLE tool_effect, tool_dedup_audit`)
	require.Equal(t, "done", b.show(t, "k").State, "without the other tables")
}

// A call in flight has no row. Its advisory lock shows its session and the sessions that wait.
func TestShowInFlight(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	release := b.hold(t, "k")
	k := b.show(t, "k")
	require.Equal(t, "in_flight", k.State)
	require.Len(t, k.Sessions, 1)
	require.Positive(t, k.Sessions[0].PID)
	require.False(t, k.Sessions[0].Waits)
	require.WithinDuration(t, time.Now(), k.Sessions[0].Since, time.Hour)
	require.Regexp(t, `\n  in flight     pid \d+, transaction since .+\), idle in transaction`, b.dedup(t, "show", "acme", "refund", "k").out)
	require.Empty(t, b.show(t, "other").Sessions)
	release()
	require.Empty(t, b.show(t, "k").Sessions)

	first := setupOn(t, "other")
	release = first.hold(t, "k")
	require.Equal(t, "in_flight", first.show(t, "k").State)
	release()
	require.Equal(t, "done", first.show(t, "k").State)
}

// A role that may not read is told which grants it wants.
func TestWithoutPrivilege(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	role := pgx.Identifier{b.db.Name}.Sanitize()
	b.exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'of a test'")
	t.Cleanup(func() { _, _ = b.pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role) })
	for _, args := range [][]string{{"show", "acme", "refund", "k"}, {"list", "--scope", "acme", "--tool", "refund"}} {
		u, err := url.Parse(b.db.URL)
		require.NoError(t, err)
		u.User = url.UserPassword(b.db.Name, "of a test")
		got := run(t.Context(), append(args, "--database-url", u.String())...)
		require.Equal(t, exit.Failed, got.code)
		require.Contains(t, got.errOut, "tool_dedup")
		require.Contains(t, got.errOut, "(SQLSTATE 42501)")
		require.Contains(t, got.errOut, `GRANT SELECT ON ALL TABLES IN SCHEMA "public" TO `+role)
		require.NotContains(t, got.errOut, "migrations.Check")
	}
}
