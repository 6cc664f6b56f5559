package calls_test

import (
	"context"
	"fmt"
	"os/user"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
)

// advance lets a process that has the tool act once.
func (b *outside) advance(t *testing.T, key string) external.Operation {
	t.Helper()
	op, err := b.tools.Advance(t.Context(), "acme", "pay", key)
	require.NoError(t, err)
	return op
}

func (b *outside) call(t *testing.T, key string) (dedup.Result[receipt], error) {
	t.Helper()
	return b.pay.Do(t.Context(), dedup.Call{Scope: "acme", Key: key}, payment{"hunter2"})
}

// TestResolve gives each verdict with the command. The verdict is stored, audited with its actor
// (by default the system user), and carried out by a process that has the tool. The tests of
// package external cover the effect of each verdict.
func TestResolve(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	who, err := user.Current()
	require.NoError(t, err)
	for verdict, c := range map[string]struct {
		args     []string
		actor    string
		state    string // once it is stored
		result   string
		attempts int // with the one that was lost
	}{
		"happened": {[]string{"--happened", `{"id": "re_1"}`}, who.Username, "parked", "re_1", 1},
		"never":    {[]string{"--never"}, who.Username, "pending", "again", 2},
		"refuse":   {[]string{"--refuse", "--actor", "ada"}, "ada", "parked", "", 1},
	} {
		before := len(b.keys)
		op := b.park(t, verdict)
		got := b.resolve(t, op, append(c.args, "--json")...)
		require.Equal(t, exit.OK, got.code, got.errOut)
		require.Empty(t, got.errOut)
		stored := operations(t, got.out)[0]
		require.Equal(t, []string{c.state, verdict, c.actor + ": seen in the books", op.ProviderKey, ""},
			[]string{stored.State, stored.Verdict, stored.Note, stored.ProviderKey, stored.Cursor})
		require.Greater(t, stored.Fence, op.Fence)
		var audited string
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT concat_ws(' ', actor, action, outcome) FROM tool_dedup_audit WHERE key = $1`, verdict).Scan(&audited))
		require.Equal(t, c.actor+" "+verdict+" parked", audited)

		require.Equal(t, external.StateDone, b.advance(t, verdict).State)
		result, err := b.call(t, verdict)
		if c.result == "" {
			var refused *dedup.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "seen in the books", refused.Message)
		} else {
			require.NoError(t, err)
			require.Equal(t, receipt{c.result}, result.Value)
			require.True(t, result.Replayed)
		}
		require.Equal(t, c.attempts, len(b.keys)-before)
	}
	require.Empty(t, b.parked(t))
	require.Equal(t, outcome{exit.OK, "stored: a process that has the tool records it\n", ""}, b.resolve(t, b.park(t, "text"), "--refuse"))
}

// What is open is listed, by age, and can be resolved.
func TestOpen(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	require.Equal(t, outcome{exit.OK, "", "No operation is open.\n"}, b.dedup(t, "parked", "--open"))
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, due_at, sent_until, note)
		SELECT 'acme', 'pay', 'k' || n, 'running', n, 9, false, decode(repeat('07', 32), 'hex'), now() - n * interval '1 minute', now(), now(), now() - interval '1 minute', '403' FROM generate_series(1, 25) n`)
	all := b.parked(t, "--open")
	require.Len(t, all, 25)
	require.Equal(t, []string{"k25", "k1"}, []string{all[0].Key, all[24].Key}, "the oldest first")
	require.Len(t, b.parked(t, "--open", "--older-than", "20m30s"), 5)
	require.Empty(t, b.parked(t))
	require.Equal(t, exit.OK, b.resolve(t, all[0], "--refuse").code)
	require.Equal(t, external.StateDone, b.advance(t, "k25").State)
}

// A verdict applies only to the row that the operator looked at. If nothing is stored, the command
// gives the reason.
func TestResolveRefused(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	op := b.park(t, "order-7")
	fails := func(op operation, why string, args ...string) {
		t.Helper()
		before := b.parked(t)
		got := b.resolve(t, op, args...)
		require.Equal(t, exit.Failed, got.code)
		require.Empty(t, got.out)
		require.Regexp(t, "^dedup: "+why, got.errOut)
		require.NotContains(t, got.errOut, "--help")
		require.Equal(t, before, b.parked(t), "nothing is stored")
	}
	// Without --fence the operation is shown.
	got := b.dedup(t, "resolve", "acme", "pay", "order-7", "--refuse", "--reason", "no")
	require.Equal(t, exit.Misused, got.code, got.errOut)
	require.Empty(t, got.out)
	require.Contains(t, got.errOut, "acme pay order-7\n  state         parked since ")
	require.Contains(t, got.errOut, "  provider key  "+op.ProviderKey+"\n")
	require.Contains(t, got.errOut, fmt.Sprint("then give --fence ", op.Fence))
	require.Equal(t, []operation{op}, b.parked(t))
	stale, missing := op, op
	stale.Fence--
	missing.Key = "order-8"
	fails(stale, "acme pay order-7 changed: its fence is ", "--never")
	fails(missing, "there is no operation acme pay order-8", "--never")
	b.exec(t, `UPDATE tool_effect SET state = 'running', sent_until = now() + interval '1 hour'`)
	fails(op, "acme pay order-7 is running", "--never")
	b.exec(t, `UPDATE tool_effect SET state = 'parked'`)

	// A verdict that waits for another transaction's lock ends after --timeout.
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM tool_effect FOR UPDATE`)
	require.NoError(t, err)
	fails(op, "it is not known whether the verdict was stored; look with `dedup parked`", "--refuse", "--timeout", "2s")
	for waits := true; waits; { // until the server has cancelled it
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
	}
	require.NoError(t, tx.Rollback(t.Context()))

	// A stored verdict stays. A second person is told who decided, and the lists show it. Only
	// --overrule replaces it.
	require.Equal(t, exit.OK, b.resolve(t, op, "--happened", `{"id":"re_1"}`, "--actor", "ada").code)
	stored := b.parked(t)[0]
	const verdict = `happened \(ada: seen in the books, at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\), not carried out yet`
	require.Regexp(t, "\n  verdict       "+verdict+"\n", b.dedup(t, "parked").out)
	for _, as := range []operation{op, stored} {
		fails(as, "acme pay order-7 has a verdict: "+verdict, "--never", "--actor", "bob")
	}
	fails(op, "acme pay order-7 changed", "--never", "--overrule") // as it was before the verdict
	require.Equal(t, exit.OK, b.resolve(t, stored, "--refuse", "--overrule", "--actor", "bob").code)
	require.Equal(t, external.StateDone, b.advance(t, "order-7").State)
	_, err = b.call(t, "order-7")
	require.ErrorIs(t, err, dedup.ErrRefused)
	fails(op, "acme pay order-7 already has an answer", "--never")
}
