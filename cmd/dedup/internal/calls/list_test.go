package calls_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/exit"
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

	// --key-hash finds a record by the hash in a log, for every kind of key.
	b.do(t, "größe, \\x41 and '")
	for _, key := range []string{"k1", "it's k4", "größe, \\x41 and '"} {
		found := fine[record](t, b, exit.OK, append(args, "--key-hash", dedup.KeyHash(key))...)
		require.Len(t, found, 1)
		require.Equal(t, key, found[0].Key)
	}
}

// A search of records ends after so many, and says where to go on. Of a page that is full of equal
// times, as records of one statement have, the next begins where it has ended.
func TestListSearchesInPages(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	hash := dedup.KeyHash("k00000001")
	search := func(args ...string) []string {
		return append([]string{"list", "--scope", "acme", "--tool", args[0], args[1], args[2]}, "--timeout", "60s")
	}
	require.Equal(t, outcome{exit.OK, "", "There is no such record.\n"}, b.dedup(t, search("many", "--key-hash", hash)...))
	b.exec(t, `INSERT INTO tool_dedup SELECT 'acme', tool, key, ''::bytea, NULL, CASE WHEN key = 'k00000001' THEN 'refused' ELSE 'done' END, '1', at, at + interval '1 day', at + interval '2 days'
		FROM (SELECT 'many' AS tool, 'k' || lpad(n::text, 8, '0') AS key, now() - interval '1 minute' - n * interval '1 millisecond' AS at FROM generate_series(1, 25000) n
		      UNION ALL SELECT 'refund', 'k' || n, now() - interval '90 s' FROM generate_series(1, 5) n) AS made`)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{search("many", "--outcome", "refused"), []string{"k00000001"}},
		{search("many", "--key-hash", hash), []string{"k00000001"}},
		{search("refund", "--since", "1h"), []string{"k5", "k4", "k3", "k2", "k1"}},
	} {
		first := b.dedup(t, c.args...)
		require.Equal(t, exit.OK, first.code, first.errOut)
		require.Empty(t, first.out)
		_, after, ok := strings.Cut(strings.TrimSpace(first.errOut), "Next page: dedup "+strings.Join(c.args[:7], " ")+" --after ")
		require.True(t, ok, first.errOut)
		var keys []string
		for len(keys) < len(c.want) {
			page := fine[record](t, b, exit.OK, append(c.args, "--limit", "2", "--after", after)...)
			require.NotEmpty(t, page)
			for _, r := range page {
				keys, after = append(keys, r.Key), r.Cursor
			}
		}
		require.Equal(t, c.want, keys)
		require.Empty(t, fine[record](t, b, exit.OK, append(c.args, "--after", after)...))
	}
}

// What was created in the last time is listed by that, whatever its key, and whether it still
// has its result or not.
func TestListSince(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.exec(t, `INSERT INTO tool_dedup
		SELECT 'acme', t.tool, md5(n::text), ''::bytea, NULL, CASE WHEN n % 5 = 0 THEN 'refused' ELSE 'done' END, CASE WHEN n <= 20 THEN '1' END,
		       now() - n * interval '1 hour', now() - n * interval '1 hour' + t.kept, now() - n * interval '1 hour' + t.kept + interval '30 days'
		  FROM generate_series(1, 60) n, (VALUES ('refund', interval '1 day'), ('book', interval '1 hour')) AS t (tool, kept)`)
	args := []string{"list", "--scope", "acme", "--tool", "refund", "--since", "2d"}
	var ages []int
	after := ""
	for range 5 {
		page := fine[record](t, b, exit.OK, append(args, "--limit", "10", "--after", after)...)
		for _, r := range page {
			require.Equal(t, "refund", r.Tool)
			ages = append(ages, int(time.Since(r.CreatedAt).Hours()))
			after = r.Cursor
		}
	}
	require.Len(t, ages, 47, "49 were not created in the last two days, nor 48 by a moment")
	for i, age := range ages {
		require.Equal(t, i+1, age)
	}
	got := b.dedup(t, append(args, "--limit", "1")...)
	require.Regexp(t, `^Only records whose result is kept for 24 h are listed\.\nNext page: dedup list --scope acme --tool refund --since 2d --after \S+\n$`, got.errOut)
	refused := fine[record](t, b, exit.OK, append(args, "--outcome", "refused")...)
	require.Len(t, refused, 9)
	require.Equal(t, outcome{exit.OK, "", "There is no such record.\n"}, b.dedup(t, "list", "--scope", "acme", "--tool", "other", "--since", "1h"))

	// A record whose answer is not kept expires before it is created.
	b.exec(t, `INSERT INTO tool_dedup
		SELECT 'acme', 'minted', 'k' || n, ''::bytea, NULL, 'done', NULL, at, at - n * interval '1 ms', at + interval '30 days'
		  FROM generate_series(1, 7) n, LATERAL (SELECT now() - n * interval '1 hour' AS at) AS made`)
	require.Len(t, fine[record](t, b, exit.OK, "list", "--scope", "acme", "--tool", "minted", "--since", "5h30m"), 5)

	// What a tool has kept for several times is listed once each.
	b.exec(t, `INSERT INTO tool_dedup
		SELECT 'acme', 'mixed', 'k' || n, ''::bytea, NULL, 'done', '1', at, at + kept, at + kept + CASE WHEN n % 3 = 0 THEN interval '30 days' ELSE interval '40 days' END
		  FROM generate_series(1, 7) n, LATERAL (SELECT now() - n * interval '1 hour' AS at, CASE WHEN n % 2 = 0 THEN interval '1 day' ELSE interval '20 hours' END AS kept) AS made`)
	var keys []string
	for _, r := range fine[record](t, b, exit.OK, "list", "--scope", "acme", "--tool", "mixed", "--since", "5h30m") {
		keys = append(keys, r.Key)
	}
	require.Equal(t, []string{"k1", "k2", "k3", "k4", "k5"}, keys)

	// Erased records expired when they were erased, which is not a retention of the tool.
	b.exec(t, `UPDATE tool_dedup SET fingerprint = sha256(''), created_at = created_at - interval '1 minute' WHERE tool = 'mixed'`)
	_, err := b.d.Erase(t.Context(), "acme", "mixed", dedup.ChangeOptions{Reason: "contract ended"})
	require.NoError(t, err)
	got = b.dedup(t, "list", "--scope", "acme", "--tool", "mixed", "--since", "5h30m")
	require.Equal(t, 5, strings.Count(got.out, "expired"), got.out)
	require.Empty(t, got.errOut)
}

// Which scopes and tools have records is read without their records.
func TestListTools(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	require.Equal(t, outcome{exit.OK, "", "There is no record.\n"}, b.dedup(t, "list"))
	b.exec(t, `INSERT INTO tool_dedup SELECT scope, tool, n::text, ''::bytea, NULL, 'done', '1', now(), now(), now() FROM generate_series(1, 3) n,
		(VALUES ('acme', 'book'), ('acme', 'refund'), ('it''s', 'book'), ('it''s', 'send'), ('zeta', 'a'), ('zeta', 'refund')) AS of (scope, tool)`)
	list := func(args ...string) string { return b.dedup(t, append([]string{"list"}, args...)...).out }
	require.Equal(t, "acme book\nacme refund\n'it'\\''s' book\n'it'\\''s' send\nzeta a\nzeta refund\n", list())
	require.Equal(t, "acme book\nacme refund\n", list("--scope", "acme"))
	require.Equal(t, "acme refund\nzeta refund\n", list("--tool", "refund"))
	require.Equal(t, "acme book\n'it'\\''s' book\n", list("--tool", "book"))
	require.Equal(t, "zeta a\n", list("--tool", "a"))
	require.Empty(t, list("--tool", "zzz"))
	require.Empty(t, list("--scope", "nobody"))

	got := b.dedup(t, "list", "--tool", "refund", "--limit", "1")
	cursor, ok := strings.CutPrefix(strings.TrimSpace(got.errOut), "Next page: dedup list --tool refund --after ")
	require.True(t, ok, got.errOut)
	require.Equal(t, "zeta refund\n", list("--tool", "refund", "--after", cursor))
	page := fine[record](t, b, exit.OK, "list", "--scope", "acme", "--limit", "1")
	require.Equal(t, "acme refund\n", list("--scope", "acme", "--after", page[0].Cursor))
}

// Keys that begin with a time are listed newest first.
func TestListOfTimedKeys(t *testing.T) {
	t.Parallel()

	b := setup(t, nil)
	b.do(t, dedup.NewKey())
	last := dedup.NewKey()
	b.exec(t, `UPDATE tool_dedup SET key = regexp_replace(key, '^(....)..', '\100')`)
	b.do(t, last)
	require.Equal(t, last, fine[record](t, b, exit.OK, "list", "--scope", "acme", "--tool", "refund")[0].Key)
}
