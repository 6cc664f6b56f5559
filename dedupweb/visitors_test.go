package dedupweb_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// after finds the cursors of a page.
var after = regexp.MustCompile(`after=([\w-]+)`)

// TestEveryListForEveryVisitor gets every list with every kind of rights. A page has no key and no
// scope that the visitor may not see, and its cursors tell no more than the page.
func TestEveryListForEveryVisitor(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	// For the lists by time, one record of each scope is later; the others have the same time.
	b.exec(t, `INSERT INTO tool_dedup SELECT s, 'refund', s || '-order-' || lpad(n::text, 3, '0'), sha256(''), NULL, 'done', '1',
			now() - interval '1 hour', now() + interval '23 hours', now() + interval '29 days' FROM generate_series(1, 130) n, unnest(ARRAY['acme', 'other']) s;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now() - right(key, 3)::int * interval '1 second', 'app', 'app', 'reset', scope, tool, key, 'done', created_at, 'why' FROM tool_dedup;
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT s, 'pay', s || '-parked-' || n, 'parked', n, 0, false, sha256(''), now(), now() - n * interval '1 second' FROM generate_series(1, 3) n, unnest(ARRAY['acme', 'other']) s`)
	const one = "records?scope=acme&tool=refund"
	lists := []string{
		"", "inflight", "attention", "audit", "records", "records?tool=refund", "records?scope=acme", one, one + "&outcome=done", one + "&last=1h",
		one + "&last=24h&outcome=done", one + "&key=" + dedup.KeyHash("acme-order-007"),
	}
	for who, v := range visitors {
		sees := func(scope string) bool { return v.Scopes == nil || slices.Contains(v.Scopes, scope) }
		for _, list := range lists {
			cursors := []string{""}
			for pages := 0; len(cursors) > 0; pages++ {
				got := b.get(t, who, list+cursors[0])
				name := who + " " + list + cursors[0]
				switch {
				case v.Name == "":
					require.Equal(t, http.StatusForbidden, got.code, name)
				case strings.Contains(list, "scope=acme") && !sees("acme"):
					require.Equal(t, http.StatusForbidden, got.code, name)
				case strings.Contains(list, "key=") && v.Keys:
					require.Equal(t, http.StatusSeeOther, got.code, name)
					require.Equal(t, callPage("acme", "refund", "acme-order-007"), got.header.Get("Location"))
				default:
					require.Equal(t, http.StatusOK, got.code, name)
				}
				if !v.Keys {
					require.NotRegexp(t, `-order-|-parked-`, got.text, name)
				}
				if strings.Contains(list, "key=") && got.code == http.StatusOK {
					require.Contains(t, got.text, dedup.KeyHash("acme-order-007"), name)
					require.Equal(t, 1, strings.Count(got.text, `class="key"`), name)
				}
				for _, scope := range []string{"acme", "other"} {
					if !sees(scope) {
						require.NotRegexp(t, `\b`+scope+`\b`, strings.ReplaceAll(got.text, `value="acme"`, ""), name)
					}
				}
				cursors = cursors[1:]
				for _, match := range after.FindAllStringSubmatch(got.text, -1) {
					text, err := base64.RawURLEncoding.DecodeString(match[1])
					require.NoError(t, err, name)
					require.True(t, v.Keys || !strings.Contains(string(text), "Key"), "%s: %s", name, text)
					for _, key := range regexp.MustCompile(`\w+-order-\d+`).FindAllString(string(text), -1) {
						require.Contains(t, got.text, ">"+key+"<", name)
					}
					join := "&"
					if !strings.Contains(list, "?") {
						join = "?"
					}
					cursors = append(cursors, join+"after="+match[1])
				}
				require.Less(t, pages, 5, name)
			}
		}
	}
}

// TestForgedCursorsTellNoKey refuses cursors from visitors without Keys. Cursors are not
// signed: from forged ones such a visitor could learn a key, letter by letter.
func TestForgedCursorsTellNoKey(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.do(t, "acme", "order-7")
	b.breaks(t, "acme", "order-8")
	var created time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT created_at FROM tool_dedup WHERE key = 'order-7'`).Scan(&created))
	at := `"At":"` + created.UTC().Format(time.RFC3339Nano) + `",`
	for _, c := range []struct{ list, address, place string }{
		{"records", "records?scope=acme&tool=refund", ""},
		{"records", "records?scope=acme&tool=refund&outcome=done", ""},
		{"since", "records?scope=acme&tool=refund&last=24h", at},
		{"since", "records?scope=acme&tool=refund&last=24h&outcome=done", at},
		{"tools", "records?scope=acme", ""},
		{"audit", "audit?", `"At":"2100-01-01T00:00:00Z","ID":"00000000-0000-0000-0000-000000000000",`},
	} {
		guess := func(who, key string) string {
			cursor := base64.RawURLEncoding.EncodeToString([]byte(`{"List":"` + c.list + `",` + c.place + `"Key":"` + key + `"}`))
			return b.get(t, who, c.address+"&after="+cursor).text
		}
		require.Equal(t, guess("reader", "order-6"), guess("reader", "order-9"), c.address)
		if strings.Contains(c.address, "tool=") {
			require.NotEqual(t, guess("keeper", "order-6"), guess("keeper", "order-9"), c.address)
		}
	}
}

// TestScopeBehindOthers has a visitor of one scope find its needs behind any number of others'.
func TestScopeBehindOthers(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, due_at, sent_at, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'other', 'pay', n::text, CASE WHEN n % 2 = 0 THEN 'parked' ELSE 'running' END, n, now(), now(), 0, false, sha256(''), now() - interval '1 day', now() - interval '1 day' FROM generate_series(1, 4500) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now() + n * interval '1 second', 'app', 'app', 'broken', 'other', 'refund', n::text, 'broken', now(), 'why' FROM generate_series(1, 1100) n`)
	b.breaks(t, "acme", "order-8")
	b.park(t, "acme", "order-9")
	b.exec(t, `INSERT INTO tool_effect SELECT (jsonb_populate_record(e, '{"key": "order-10", "state": "running"}')).* FROM tool_effect e WHERE key = 'order-9';
		UPDATE tool_effect SET due_at = now(), created_at = now() - interval '2 hours' WHERE key = 'order-10'`)
	page := b.page(t, "scoped", "attention")
	for _, key := range []string{"order-8", "order-9", "order-10"} {
		require.Contains(t, page, ">"+key+"<", key)
	}
}

// TestFindByHash finds a record by a hash from the log, also an effect without a record. The answer
// for an unknown hash does not claim that the call never happened.
func TestFindByHash(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.do(t, "acme", "order-7")
	b.park(t, "acme", "order-9")
	b.do(t, "acme", "0123456789abcdef") // a key that looks like a hash
	search := func(tool, key string) string { return "records?scope=acme&tool=" + tool + "&key=" + key }
	for tool, key := range map[string]string{"refund": "order-7", "pay": "order-9"} {
		got := b.get(t, "keeper", search(tool, dedup.KeyHash(key)))
		require.Equal(t, http.StatusSeeOther, got.code, got.text)
		require.Equal(t, callPage("acme", tool, key), got.header.Get("Location"))
	}
	require.Contains(t, b.page(t, "reader", search("refund", dedup.KeyHash("order-7"))), dedup.KeyHash("order-7"))
	require.Contains(t, b.page(t, "reader", search("pay", dedup.KeyHash("order-9"))), "has no answer yet")

	page := b.page(t, "keeper", search("refund", "0123456789abcdef"))
	require.Contains(t, page, "may be forgotten, or the call did not run")
	require.Contains(t, b.page(t, "keeper", link(t, page, "Look for it as a key")), "hunter2")
	page = b.page(t, "keeper", callPage("acme", "refund", "order-1"))
	require.Contains(t, page, "did not run")
	require.Contains(t, page, "forgotten")
}
