package records_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// record is a line of `dedup list --json`.
type record struct {
	Scope, Tool, Key, State, Outcome, Cursor string
	CreatedAt                                time.Time `json:"created_at"`
	ResultBytes                              *int64    `json:"result_bytes"`
}

func TestList(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	args := []string{"list", "--scope", "acme", "--tool", "refund"}
	require.Equal(t, outcome{exit.OK, "", "There is no such record.\n"}, b.dedup(t, args...))

	b.do(t, "k1")
	b.refuse(t, "k2")
	b.doBroken(t, "k3")
	b.do(t, "it's k4")
	b.do(t, "k5")
	b.exec(t, `UPDATE tool_dedup SET expires_at = created_at WHERE key = 'k5'; UPDATE tool_dedup SET forget_at = created_at WHERE key = 'it''s k4'`)
	var states []string
	for _, r := range fine[record](t, b, exit.OK, args...) {
		states = append(states, r.Key+" "+r.State+" "+r.Outcome)
	}
	require.Equal(t, []string{"k5 expired done", "k3 broken broken", "k2 refused refused", "k1 done done", "it's k4 forgotten done"}, states)

	got := b.dedup(t, args...)
	require.Equal(t, exit.OK, got.code)
	require.Contains(t, got.out, `acme refund 'it'\''s k4'`+"\n  state         forgotten\n  created       20")
	require.Contains(t, got.out, "  result        9 bytes\n")
	require.NotContains(t, got.out, "hunter2")
	require.Empty(t, got.errOut)

	refused := fine[record](t, b, exit.OK, append(args, "--outcome", "refused")...)
	require.Len(t, refused, 1)
	require.Equal(t, "k2", refused[0].Key)
}

func TestListPages(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `INSERT INTO tool_dedup SELECT 'acme', 'it''s', 'k' || lpad(n::text, 3, '0'), ''::bytea, NULL, 'done', '1', now(), now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 25) n`)
	after, want := "", 25
	for _, size := range []int{10, 10, 5} {
		args := []string{"list", "--scope", "acme", "--tool", "it's", "--limit", "10", "--after", after}
		got := b.dedup(t, args...)
		page := fine[record](t, b, exit.OK, args...)
		require.Len(t, page, size)
		for _, r := range page {
			require.Equal(t, fmt.Sprintf("k%03d", want), r.Key)
			after = r.Cursor
			want--
		}
		if size == 10 {
			require.Equal(t, `There is more: dedup list --scope acme --tool 'it'\''s' --after `+after+"\n", got.errOut)
		} else {
			require.Empty(t, got.errOut)
		}
	}
	require.Equal(t, outcome{exit.OK, "", "There is no more.\n"}, b.dedup(t, "list", "--scope", "acme", "--tool", "it's", "--after", after))
}

// A search for one outcome ends, and says where to go on.
func TestListSearchesInPages(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `INSERT INTO tool_dedup SELECT 'acme', 'refund', 'k' || lpad(n::text, 8, '0'), ''::bytea, NULL, CASE WHEN n = 1 THEN 'refused' ELSE 'done' END, '1', now(), now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 20001) n`)
	args := []string{"list", "--scope", "acme", "--tool", "refund", "--outcome", "refused", "--timeout", "60s"}
	got := b.dedup(t, args...)
	require.Equal(t, exit.OK, got.code, got.errOut)
	require.Empty(t, got.out)
	cursor, ok := strings.CutPrefix(strings.TrimSpace(got.errOut), "There is more: dedup list --scope acme --tool refund --outcome refused --after ")
	require.True(t, ok, got.errOut)
	page := fine[record](t, b, exit.OK, append(args, "--after", cursor)...)
	require.Len(t, page, 1)
	require.Equal(t, "k00000001", page[0].Key)
}

// A list that cannot be read in time is an error, and holds nothing up.
func TestListFailures(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	args := []string{"list", "--scope", "acme", "--tool", "refund"}
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_dedup`)
	require.NoError(t, err)
	got := b.dedup(t, append(args, "--timeout", "50ms")...)
	require.Equal(t, exit.Failed, got.code)
	require.Contains(t, got.errOut, "SQLSTATE 57014")
	require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))

	empty := run(t.Context(), append(args, "--database-url", pgtest.NewEmpty(t).URL)...)
	require.Equal(t, exit.Failed, empty.code)
	require.Contains(t, empty.errOut, "`dedup migrate check` says what is missing")

	b.exec(t, `CREATE SCHEMA "My app"; ALTER TABLE tool_dedup SET SCHEMA "My app"`)
	require.Equal(t, exit.OK, b.dedup(t, append(args, "--schema", "My app")...).code)

	requireMisused(t, []string{"list"}, []string{"list", "--scope", "acme"}, []string{"list", "--tool", "refund"},
		append(args, "now"), append(args, "--outcome", "good"), append(args, "--limit", "0"), append(args, "--after", "x y"), append(args, "--timeout", "0s"))
}

// Newest first, where keys begin with their time.
func TestListOfTimedKeys(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.do(t, dedup.NewKey())
	last := dedup.NewKey()
	b.exec(t, `UPDATE tool_dedup SET key = regexp_replace(key, '^(....)..', '\100')`)
	b.do(t, last)
	require.Equal(t, last, fine[record](t, b, exit.OK, "list", "--scope", "acme", "--tool", "refund")[0].Key)
}
