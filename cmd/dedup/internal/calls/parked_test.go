package calls_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
)

func TestParked(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	none := b.dedup(t, "parked")
	require.Equal(t, outcome{exit.OK, "", "Nothing is parked, and nothing has happened twice.\n"}, none)

	op := b.park(t, "order-7")
	require.Equal(t, <-b.keys, op.ProviderKey)
	require.Equal(t, []string{"acme", "pay", "parked"}, []string{op.Scope, op.Tool, op.State})
	require.Positive(t, op.Fence)
	require.False(t, op.Since.IsZero())
	require.False(t, op.SentAt.IsZero())
	require.Contains(t, op.Note, "the answer is lost")
	require.Empty(t, op.Verdict)

	got := b.dedup(t, "parked")
	require.Equal(t, exit.OK, got.code)
	require.Empty(t, got.errOut)
	require.Regexp(t, `^acme pay order-7
  state         parked since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \((now|\d+ s ago)\), fence \d+
  key hash      [0-9a-f]{16}
  provider key  [0-9a-f-]{36}
  note          .*the answer is lost.*
$`, got.out)
	require.NotContains(t, got.out, "hunter2")
}

// What has happened twice is listed although it is answered.
func TestParkedTwice(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	b.exec(t, effectsOf("'t'", "'done', 1, 'ch_1', 'ch_2 ch_3'", "now() - interval '90 s'"))
	ops := b.parked(t)
	require.Len(t, ops, 1)
	require.Equal(t, []string{"done", "ch_1", "ch_2 ch_3"}, []string{ops[0].State, ops[0].Ref, ops[0].Twice})
	require.Contains(t, b.dedup(t, "parked").out, "\n  twice         ch_2 ch_3\n")

	// docs/external.md says how to take it off the list.
	got := b.dedup(t, "resolve", "acme", "pay", "t", "--fence", "1", "--cleared", "--reason", "both are refunded")
	require.Equal(t, exit.OK, got.code, got.errOut)
	require.Equal(t, "stored: it is listed no longer\n", got.out)
	require.Empty(t, b.parked(t))
}

// effectsOf inserts operations: key, then state, fence, ref and twice, then since when.
func effectsOf(key, state, since string) string {
	return `INSERT INTO tool_effect (scope, tool, key, state, fence, ref, twice, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'acme', 'pay', ` + key + `, ` + state + `, 0, false, ''::bytea, now(), ` + since + ` FROM generate_series(1, 1) n`
}

// What others wrote does not steer a terminal, and names can be copied into a shell.
func TestParkedPrintsSafely(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	b.exec(t, effectsOf(`'it''s order 7; rm'`, `'parked', 1, E'ch\u202e', NULL`, "now()"))
	b.exec(t, `UPDATE tool_effect SET note = E'red \033[31m and\na line'`)
	out := b.dedup(t, "parked").out
	require.Contains(t, out, `acme pay 'it'\''s order 7; rm'`+"\n")
	require.Contains(t, out, "  ref           ch�\n")
	require.Contains(t, out, "  note          red �[31m and a line\n")
}
