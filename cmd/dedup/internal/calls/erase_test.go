package calls_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
)

// stored is a line of `dedup export`.
type stored struct {
	Scope, Tool, Key, Outcome, Cursor string
	Result                            json.RawMessage
	Effect                            *struct {
		State, Note string
		Input       json.RawMessage
	}
}

func exported(t *testing.T, b *bundle, args ...string) (lines []stored) {
	t.Helper()
	got := b.dedup(t, append([]string{"export"}, args...)...)
	require.Equal(t, exit.OK, got.code, got.errOut)
	for text := range strings.Lines(got.out) {
		var line stored
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		lines = append(lines, line)
	}
	return lines
}

// A tenant's calls are exported and erased. Until its effects are resolved, nothing is erased.
func TestTenantLeaves(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	b.do(t, "k")
	b.refuse(t, "no")
	b.park(t, "order-7")
	b.exec(t, `INSERT INTO tool_dedup SELECT 'zeta', tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at FROM tool_dedup`)

	lines := exported(t, b.bundle, "--scope", "acme")
	require.Len(t, lines, 3)
	require.Equal(t, []string{"pay order-7", "refund k", "refund no"}, []string{lines[0].Tool + " " + lines[0].Key, lines[1].Tool + " " + lines[1].Key, lines[2].Tool + " " + lines[2].Key})
	require.Equal(t, "parked", lines[0].Effect.State)
	require.Contains(t, string(lines[0].Effect.Input), "secret")
	require.Empty(t, lines[0].Outcome)
	require.Contains(t, string(lines[1].Result), "hunter2")
	require.Contains(t, string(lines[2].Result), "hunter2 declined")
	require.Equal(t, lines[1:], exported(t, b.bundle, "--scope", "acme", "--tool", "refund"))
	require.Equal(t, lines[1:], exported(t, b.bundle, "--scope", "acme", "--after", lines[0].Cursor))
	require.Empty(t, exported(t, b.bundle, "--scope", "nobody"))

	erase := []string{"erase", "--scope", "acme", "--reason", "contract ended", "--actor", "ada"}
	refused := func(why string, args ...string) {
		t.Helper()
		got := b.dedup(t, args...)
		require.Equal(t, exit.Failed, got.code, got.errOut)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, why)
		require.Equal(t, lines, exported(t, b.bundle, "--scope", "acme"))
	}
	refused("there are 2 records, 1 effects outside the database, of which 1 must be resolved first, and 0 reasons in the audit; erase with --yes", "erase", "--scope", "acme", "--actor", "ada")
	refused("1 parked, 0 open; resolve them first", append(erase, "--yes")...)

	type counts struct{ Records, Effects, Unaudited, Reasons int64 }
	require.Equal(t, []counts{{2, 0, 0, 0}}, fine[counts](t, b.bundle, exit.OK, append(erase, "--tool", "refund", "--yes")...))
	b.exec(t, `UPDATE tool_effect SET state = 'done', due_at = NULL`)
	got := b.dedup(t, append(erase, "--yes")...)
	require.Equal(t, outcome{exit.OK, "erased: late retries are refused\n  records       0\n  effects       1\n  reasons       0\n", ""}, got)

	b.exec(t, `INSERT INTO tool_dedup_audit SELECT at, gen_random_uuid(), actor, role, 'reset', scope, tool, 'freed', outcome, created_at, 'hunter2' FROM tool_dedup_audit`)
	got = b.dedup(t, "erase", "--scope", "acme")
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "there are 0 records, 0 effects outside the database, of which 0 must be resolved first, and 2 reasons in the audit")
	got = b.dedup(t, append(erase, "--yes")...)
	require.Equal(t, outcome{exit.OK, "erased: late retries are refused\n  records       0\n  effects       0\n  reasons       2\n", ""}, got)

	for what, args := range map[string][]string{
		`scope "acme"`:                   {"--scope", "acme"}, // erased before
		`scope "amce"`:                   {"--scope", "amce"},
		`tool "refunds" of scope "zeta"`: {"--scope", "zeta", "--tool", "refunds"},
	} {
		args, nothing := append([]string{"erase"}, args...), "othing is left to erase: "+what+" has no records, or they were erased before; check the name"
		require.Equal(t, outcome{exit.Failed, "", "dedup: n" + nothing + "\n"}, b.dedup(t, args...))
		args = append(args, "--reason", "r", "--yes")
		require.Equal(t, outcome{exit.OK, "", "N" + nothing + ".\n"}, b.dedup(t, args...))
		require.Equal(t, []counts{{0, 0, 0, 0}}, fine[counts](t, b.bundle, exit.OK, args...))
	}

	lines = exported(t, b.bundle, "--scope", "acme")
	require.Len(t, lines, 3)
	for _, line := range lines {
		require.Nil(t, line.Result)
		require.True(t, line.Effect == nil || line.Effect.Input == nil && line.Effect.Note == "")
	}
	kept := exported(t, b.bundle, "--scope", "zeta")
	require.Contains(t, string(kept[0].Result), "hunter2")
	audit := fine[line](t, b.bundle, exit.OK, "audit", "--scope", "acme", "--tool", "refund", "--key", "k")
	require.Len(t, audit, 1)
	require.Equal(t, []string{"ada", "erased", "done", "contract ended"}, []string{audit[0].Actor, audit[0].Action, audit[0].Outcome, audit[0].Reason})

	b.exec(t, `DROP TABLE tool_dedup_audit`)
	got = b.dedup(t, "erase", "--scope", "zeta", "--reason", "r", "--yes", "--json")
	require.Equal(t, exit.OK, got.code, got.errOut)
	require.Contains(t, got.out, `"unaudited":2`)
	require.Contains(t, got.errOut, "there is no table tool_dedup_audit")
}

// An export is read page by page, without a gap at a page's end.
func TestExportOfManyPages(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `INSERT INTO tool_dedup SELECT 'acme', 'tool ' || n % 2, 'k' || lpad(n::text, 3, '0'), ''::bytea, NULL, 'done', n::text, now(), now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 250) n;
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'acme', 'tool 1', 'k' || lpad(n::text, 3, '0'), 'done', n, 0, false, ''::bytea, now(), now() FROM generate_series(200, 400) n`)
	seen := map[string]bool{}
	last := ""
	for _, line := range exported(t, b, "--scope", "acme") {
		name := line.Tool + " " + line.Key
		require.Greater(t, name, last)
		last, seen[name] = name, true
		if n := line.Key[1:]; line.Outcome != "" {
			require.Equal(t, strings.TrimLeft(n, "0"), string(line.Result))
		}
	}
	require.Len(t, seen, 250+201-25, "25 calls have a record and an effect")
}
