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
	require.Equal(t, outcome{exit.OK, "", "No operation is parked or happened twice.\n"}, none)

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

// What has happened twice is listed although it is answered. What others wrote does not steer a
// terminal, and names can be copied into a shell.
func TestParkedPrints(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, ref, twice, note, tries, looked, fingerprint, created_at, changed_at) VALUES
		('acme', 'pay', 't', 'done', 1, 'ch_1', 'ch_2 ch_3', NULL, 0, false, '', now(), now() - interval '90 s'),
		('acme', 'pay', 'it''s order 7; rm', 'parked', 1, E'ch\u202e', NULL, E'red \033[31m and\na line', 0, false, '', now(), now())`)
	ops := b.parked(t)
	require.Len(t, ops, 2)
	require.Equal(t, []string{"done", "ch_1", "ch_2 ch_3"}, []string{ops[0].State, ops[0].Ref, ops[0].Twice})
	out := b.dedup(t, "parked").out
	require.Contains(t, out, "\n  twice         ch_2 ch_3\n")
	require.Contains(t, out, `acme pay 'it'\''s order 7; rm'`+"\n")
	require.Contains(t, out, `  ref           ch\u202e`+"\n")
	require.Contains(t, out, `  note          red \x1b[31m and a line`+"\n")

	// docs/external.md says how to take it off the list.
	got := b.dedup(t, "resolve", "acme", "pay", "t", "--fence", "1", "--cleared", "--reason", "both are refunded")
	require.Equal(t, exit.OK, got.code, got.errOut)
	require.Equal(t, "stored: it is no longer listed\n", got.out)
	require.Len(t, b.parked(t), 1)
}
