package calls_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestParked(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	require.Equal(t, exit.Misused, b.dedup(t, "parked", "--after", "x y").code)
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

func TestParkedPages(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	// Several are of one moment, as after an outage.
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'acme', 'pay', 'k' || n, 'parked', n, 0, false, ''::bytea, now(), timestamptz '2026-01-01' + (n / 10) * interval '1 microsecond'
		  FROM generate_series(1, 25) n`)
	seen := map[string]bool{}
	after := ""
	for _, want := range []int{10, 10, 5} {
		got := b.dedup(t, "parked", "--json", "--limit", "10", "--after", after)
		require.Equal(t, exit.OK, got.code, got.errOut)
		ops := operations(t, got.out)
		require.Len(t, ops, want)
		for _, op := range ops {
			require.False(t, seen[op.Key], op.Key)
			seen[op.Key], after = true, op.Cursor
		}
		if want == 10 {
			require.Equal(t, "There is more: dedup parked --after "+after+"\n", got.errOut)
		} else {
			require.Empty(t, got.errOut)
		}
	}
	require.Len(t, seen, 25)
	require.Equal(t, outcome{exit.OK, "", "There is no more.\n"}, b.dedup(t, "parked", "--after", after))
	require.Len(t, b.parked(t), 25)
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

func TestParkedFailures(t *testing.T) {
	t.Parallel()

	got := run(t.Context(), "parked", "--database-url", "postgres://user:s3cret@127.0.0.1:1/db")
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "dedup: connecting: ")
	require.NotContains(t, got.errOut, "s3cret")

	empty := run(t.Context(), "parked", "--database-url", pgtest.NewEmpty(t).URL)
	require.Equal(t, exit.Failed, empty.code)
	require.Contains(t, empty.errOut, "`dedup migrate up` makes what is missing")

	b := setupOutside(t)
	b.exec(t, `ALTER TABLE tool_effect RENAME TO effects; CREATE SCHEMA "My app"; ALTER TABLE effects SET SCHEMA "My app"; ALTER TABLE "My app".effects RENAME TO tool_effect`)
	require.Equal(t, exit.Failed, b.dedup(t, "parked").code)
	require.Empty(t, b.parked(t, "--schema", "My app"))

	// An application's URL may have settings of its pool.
	u, err := url.Parse(pgtest.New(t).URL)
	require.NoError(t, err)
	query := u.Query()
	query.Set("pool_max_conns", "7")
	query.Set("pool_min_conns", "3")
	u.RawQuery = query.Encode()
	require.Equal(t, exit.OK, run(t.Context(), "parked", "--database-url", u.String()).code)
}

// A list that cannot be read in time is an error, and holds nothing up.
func TestParkedTimeout(t *testing.T) {
	t.Parallel()

	b := setupOutside(t)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_effect`)
	require.NoError(t, err)
	got := b.dedup(t, "parked", "--timeout", "50ms")
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "SQLSTATE 57014")
}

func TestParkedUsage(t *testing.T) {
	t.Parallel()

	const database = "--database-url=postgres://localhost/db"
	for _, args := range [][]string{
		{"now"}, {"--fast"}, {"--limit", "0", database}, {"--limit", "1001", database}, {"--limit", "many"},
		{"--timeout", "0s", database}, {"--schema", "", database}, {"--database-url", "postgres://user:s3cret@localhost:port/db"},
	} {
		got := run(t.Context(), append([]string{"parked"}, args...)...)
		require.Equal(t, exit.Misused, got.code, args)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, "--help` for help")
		require.NotContains(t, got.errOut, "s3cret")
	}
}
