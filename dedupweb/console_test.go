package dedupweb_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// pages are the addresses of all pages.
var pages = []string{"", "inflight", "attention", "records?tool=refund", "records", "records?scope=acme&tool=refund", "records?scope=acme&tool=refund&outcome=done", callPage("acme", "refund", "order-7"), "audit"}

func TestNew(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	other, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools, err := external.New(other, nil)
	require.NoError(t, err)
	access := func(*http.Request) dedupweb.Access { return dedupweb.Access{} }
	_, err = dedupweb.New(nil, dedupweb.Options{Access: access})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = dedupweb.New(d, dedupweb.Options{})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = dedupweb.New(d, dedupweb.Options{Access: access, Tools: tools})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = dedupweb.New(d, dedupweb.Options{Access: access})
	require.NoError(t, err)
}

// TestPages gets every page with empty tables, with missing ones, and with full ones.
func TestPages(t *testing.T) {
	t.Parallel()

	t.Run("Empty", func(t *testing.T) {
		t.Parallel()
		b := setup(t, pgtest.New(t), time.Minute)
		for _, page := range pages {
			b.page(t, "keeper", page)
		}
		require.Contains(t, b.page(t, "keeper", ""), "No call has ended yet.")
		require.Contains(t, b.page(t, "keeper", "attention"), "Nothing needs attention.")
		require.Contains(t, b.page(t, "keeper", ""), "Nothing needs attention.")
		require.Contains(t, b.page(t, "keeper", "inflight"), "Nothing is in flight.")
		require.Contains(t, b.page(t, "keeper", "records"), "There is no such record.")
		require.Contains(t, b.page(t, "keeper", pages[5]), "There is no such record.")
		require.Contains(t, b.page(t, "keeper", pages[7]), "not found")
	})
	t.Run("Missing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, pgtest.New(t), time.Minute)
		b.exec(t, `DROP TABLE tool_effect, tool_dedup_audit, tool_dedup_stat`)
		for _, page := range pages {
			b.page(t, "keeper", page)
		}
		require.Contains(t, b.page(t, "keeper", "attention"), "a table is missing")
		require.Contains(t, b.page(t, "keeper", ""), "A table is missing")
		b.exec(t, `DROP TABLE tool_dedup`)
		got := b.get(t, "keeper", pages[5])
		require.Equal(t, http.StatusInternalServerError, got.code)
		require.Contains(t, got.text, "dedup migrate check")
	})
	t.Run("Filled", func(t *testing.T) {
		t.Parallel()
		b := setup(t, pgtest.New(t), time.Minute)
		b.do(t, "acme", "order-7")
		b.do(t, "acme", "order-7")
		b.do(t, "acme", "<i>&\"")
		b.breaks(t, "acme", "order-8")
		b.park(t, "acme", "order-9")
		b.hold(t, "acme", "order-10")
		for _, page := range pages {
			require.NotContains(t, b.page(t, "keeper", page), "<i>")
		}
		require.Contains(t, b.page(t, "keeper", ""), "replayed</a>&nbsp;<b>1</b>")
		require.Contains(t, b.page(t, "keeper", "inflight"), "order-10")
		attention := b.page(t, "keeper", "attention")
		require.Contains(t, attention, "order-8")
		require.Contains(t, attention, "order-9")
		records := b.page(t, "keeper", pages[5])
		require.Contains(t, records, "&lt;i&gt;&amp;&#34;")
		require.Contains(t, records, "broken")
		require.NotContains(t, b.page(t, "keeper", pages[6]), "order-8")
		require.Contains(t, b.page(t, "keeper", pages[7]), "hunter2")
		require.Contains(t, b.page(t, "keeper", callPage("acme", "refund", "order-10")), "in flight")
		require.Contains(t, b.page(t, "keeper", "audit"), "order-8")
		require.Contains(t, b.page(t, "keeper", callPage("acme", "refund", "<i>&\"")), "&lt;i&gt;")

		_, err := b.d.Erase(t.Context(), "acme", "refund", dedup.ChangeOptions{Reason: "contract ended", Actor: "ada"})
		require.NoError(t, err)
		for _, page := range []string{"audit", pages[7]} {
			text := b.page(t, "keeper", page)
			require.Regexp(t, "(?s)erased.*ada.*contract ended", text)
			require.NotContains(t, text, "hunter2")
		}
	})
}

// TestOverviewOfWhatIsRecorded prefers the counts that Sweepers have written.
func TestOverviewOfWhatIsRecorded(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.exec(t, recorded(74))
	page := b.page(t, "reader", "")
	for name, value := range map[string]string{"Calls": "100", "Ran": "74", "Duplicates": "25", "Rate": "25.0 %"} {
		require.Contains(t, page, fmt.Sprintf(`<td class="n" data-of="%s">%s</td>`, name, value))
	}
	require.Contains(t, page, `<rect class="duplicates"`)
	require.Contains(t, page, "Calls of the last 24 hours: 74 ran, 25 duplicates, 1 others; at most 74 in 30 min.")

	require.Contains(t, b.page(t, "reader", "?last=7d"), "7 days: 1,074 ran, 25 duplicates, 1 others; at most 1,000 in 3 h.")
	hour := b.page(t, "reader", "?last=1h")
	require.Contains(t, hour, "Nothing was recorded in the last hour.")
	require.Contains(t, hour, `href="./?last=24h"`)
	require.Equal(t, http.StatusBadRequest, b.get(t, "reader", "?last=1y").code)
}

// TestAccess refuses visitors without a name, and acts of read-only visitors.
func TestAccess(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.do(t, "acme", "order-7")
	b.do(t, "other", "order-7")
	b.breaks(t, "other", "order-8")
	b.hold(t, "other", "order-9")
	b.park(t, "other", "order-6")
	for _, page := range pages {
		got := b.get(t, "nobody", page)
		require.Equal(t, http.StatusForbidden, got.code, page)
		require.NotContains(t, got.text, "acme")
	}
	act := form(b.page(t, "actor", pages[7]), "reason", "why")
	for who, code := range map[string]int{"nobody": 403, "reader": 403, "keeper": 403} {
		require.Equal(t, code, b.post(t, who, "reset", act).code, who)
		require.Equal(t, code, b.post(t, who, "resolve", act).code, who)
	}
	require.NotContains(t, b.page(t, "keeper", pages[7]), "<form")

	for _, page := range []string{"", "inflight", "attention", "records", "records?tool=refund", "audit"} {
		require.NotContains(t, b.page(t, "scoped", page), "other", page)
		b.page(t, "none", page)
	}
	require.Contains(t, b.page(t, "scoped", ""), "Counts include all scopes")
	b.page(t, "scoped", pages[5])
	for _, page := range []string{"records?scope=other", "records?scope=other&tool=refund", "records?scope=other&tool=refund&key=order-7", callPage("other", "refund", "order-7")} {
		require.Equal(t, http.StatusForbidden, b.get(t, "scoped", page).code, page)
	}
	require.Equal(t, http.StatusForbidden, b.get(t, "none", pages[7]).code)
	act.Set("scope", "other")
	require.Equal(t, http.StatusForbidden, b.post(t, "scoped", "reset", act).code)
	require.Equal(t, http.StatusForbidden, b.post(t, "scoped", "resolve", act).code)
	require.Equal(t, http.StatusForbidden, b.post(t, "scoped", "reset?scope=acme", act).code)
}

// TestMasks shows keys and results only with the right to see them.
func TestMasks(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.do(t, "acme", "order-7")
	b.breaks(t, "acme", "order-8")
	b.park(t, "acme", "order-9")
	b.hold(t, "acme", "order-10")
	for _, page := range pages {
		text := b.page(t, "blind", page)
		require.NotContains(t, text, "hunter2", page)
		require.NotContains(t, text, "account-4711", page)
		if page != pages[7] {
			require.NotContains(t, text, "order-", page)
		}
	}
	require.Contains(t, b.page(t, "blind", pages[5]), dedup.KeyHash("order-7"))
	require.Contains(t, b.page(t, "actor", pages[7]), "hidden</dd>")
	require.NotContains(t, b.page(t, "actor", pages[7]), "hunter2")
}

// TestOtherSitesAreRefused posts from another site through the browser of a visitor with the right
// to act.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.do(t, "acme", "order-7")
	act := form(b.page(t, "actor", pages[7]), "reason", "why")
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "", "Origin", "https://example.com"}, {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		require.Equal(t, http.StatusForbidden, b.post(t, "actor", "reset", act, headers...).code, headers)
		require.Equal(t, http.StatusForbidden, b.post(t, "actor", "resolve", act, headers...).code, headers)
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.get(t, "actor", "reset?"+act.Encode()).code)
	require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "reset?"+act.Encode(), nil).code)
	require.Contains(t, b.page(t, "keeper", pages[7]), "hunter2")
}

func TestReset(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	key := "order+7 \"&"
	b.do(t, "acme", key)
	page := callPage("acme", "refund", key)
	act := form(strings.ReplaceAll(b.page(t, "actor", page), "&amp;", "&"))
	require.Equal(t, key, act.Get("key"))
	require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "reset", act).code)
	act.Set("reason", "refunded by hand")
	for field, value := range map[string]string{"created_at": "", "key": "", "tool": ""} {
		wrong := url.Values{}
		for name := range act {
			wrong.Set(name, act.Get(name))
		}
		wrong.Set(field, value)
		require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "reset", wrong).code, field)
	}

	got := b.post(t, "scoped", "reset", act)
	require.Equal(t, http.StatusSeeOther, got.code, got.text)
	require.Equal(t, page, got.header.Get("Location"))
	after := b.page(t, "scoped", page)
	require.Contains(t, after, "not found")
	require.Contains(t, after, "reset</span> by scoped: refunded by hand")

	// The record that was read is gone, and another one has its key.
	require.Equal(t, http.StatusConflict, b.post(t, "actor", "reset", act).code)
	b.do(t, "acme", key)
	got = b.post(t, "actor", "reset", act)
	require.Equal(t, http.StatusConflict, got.code)
	require.Contains(t, got.text, "changed since you read it")
	require.Contains(t, b.page(t, "keeper", page), "hunter2")
}

func TestResolve(t *testing.T) {
	t.Parallel()

	parkedPage := callPage("acme", "pay", "order-9")
	for name, tt := range map[string]struct {
		verdict, result, says string
	}{
		"Happened": {"happened", `{"id":"re_1"}`, "re_1"},
		"Never":    {"never", "", "again"},
		"Refuse":   {"refuse", "", "seen by hand"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, pgtest.New(t), time.Minute)
			b.park(t, "acme", "order-9")
			act := form(b.page(t, "actor", parkedPage), "verdict", tt.verdict, "result", tt.result)
			require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "resolve", act).code)
			act.Set("reason", "seen by hand")

			fence := act.Get("fence")
			act.Set("fence", "1"+fence)
			require.Equal(t, http.StatusConflict, b.post(t, "actor", "resolve", act).code)
			act.Set("fence", "")
			require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "resolve", act).code)
			act.Set("fence", fence)
			act.Set("verdict", "perhaps")
			require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "resolve", act).code)
			act.Set("verdict", tt.verdict)

			got := b.post(t, "actor", "resolve", act)
			require.Equal(t, http.StatusSeeOther, got.code, got.text)
			page := b.page(t, "keeper", got.header.Get("Location"))
			require.Contains(t, page, tt.says)
			require.Contains(t, page, tt.verdict+"</span> by actor: seen by hand")
			require.NotContains(t, b.page(t, "actor", "attention"), "order-9")
			require.Equal(t, http.StatusConflict, b.post(t, "actor", "resolve", act).code)
		})
	}

	b := setup(t, pgtest.New(t), time.Minute)
	b.park(t, "acme", "order-9")
	act := form(b.page(t, "actor", parkedPage), "verdict", "happened", "reason", "seen")
	for _, result := range []string{"", "{", `"text"`, "\xff"} {
		act.Set("result", result)
		require.Equal(t, http.StatusBadRequest, b.post(t, "actor", "resolve", act).code, result)
	}
	require.Contains(t, b.page(t, "actor", "attention"), "order-9")
}

// TestViewersShareCounts has fifty visitors cost as many queries as one. Without visitors there are
// none.
func TestViewersShareCounts(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Hour)
	b.exec(t, recorded(74))
	before := b.counted.Load()
	for range 50 {
		require.Contains(t, b.page(t, "reader", ""), `data-of="Ran">74</td>`)
	}
	require.EqualValues(t, 1, b.counted.Load()-before)
}

// TestOneLook shows on every page that something is wrong, and on the overview what it is.
func TestOneLook(t *testing.T) {
	t.Parallel()

	const needs = `>Attention <span class="badge`
	b := setup(t, pgtest.New(t), 0)
	b.do(t, "acme", "order-7")
	for _, page := range pages {
		require.NotContains(t, b.page(t, "keeper", page), needs, page)
	}
	b.breaks(t, "acme", "order-8")
	b.breaks(t, "other", "order-8")
	b.park(t, "acme", "order-9")
	b.holdElsewhere(t, nil, "other", "order-10")
	b.exec(t, `UPDATE tool_dedup SET expires_at = now() - interval '2 hours' WHERE key = 'order-7'`)
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, due_at, sent_at, tries, looked, fingerprint, created_at, changed_at)
		VALUES ('acme', 'pay', 'order-11', 'running', 7, now() + interval '1 hour', now() - interval '3 minutes', 1, false, '', now(), now())`)
	for _, page := range pages {
		require.Contains(t, b.page(t, "keeper", page), needs+` bad">5</span>`, page)
		require.Contains(t, b.page(t, "scoped", page), needs+` bad">3</span>`, page)
	}
	for _, kind := range []string{`#broken">2 broken`, `#parked">1 parked`, `#long">1 in flight for long`, `#sweep">1 late sweep`} {
		require.Contains(t, b.page(t, "reader", ""), `href="attention`+kind+`</a>`)
	}
	require.Contains(t, b.page(t, "scoped", ""), `#broken">1 broken`)
	require.NotContains(t, b.page(t, "scoped", ""), `late sweep`)
	attention := b.page(t, "keeper", "attention")
	require.Contains(t, attention, `href="call?key=order-11`)
	require.Contains(t, attention, "another process continues it")
}

// TestInFlightElsewhere shows another process's call by its session, and by name if this process
// has the same call.
func TestInFlightElsewhere(t *testing.T) {
	t.Parallel()

	for _, engine := range []string{"postgres", "other"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			db.PlayEngine(t, engine)
			b := setup(t, db, 0)
			b.holdElsewhere(t, nil, "other", "order-7")
			for who, sees := range map[string]bool{"keeper": true, "reader": true, "scoped": false, "none": false} {
				page := b.page(t, who, "inflight")
				require.Equal(t, sees, strings.Contains(page, "elsewhere"), who)
				require.Equal(t, sees, strings.Contains(page, "SELECT pg_terminate_backend("), who)
				require.Equal(t, who == "keeper", strings.Contains(page, "account-4711"), who)
				require.Equal(t, sees, strings.Contains(page, `>In flight <span class="badge busy">1</span>`), who)
			}
		})
	}
	b := setup(t, pgtest.New(t), 0)
	b.hold(t, "other", "order-8")
	page := b.page(t, "keeper", "inflight")
	require.Equal(t, 1, strings.Count(page, `<th scope="row"`), page)
	require.Contains(t, page, ">order-8</a>")
	require.Contains(t, page, "Do in this process")
	require.Contains(t, page, "SELECT pg_terminate_backend(")
	for who, sees := range map[string]bool{"keeper": true, "actor": false} {
		require.Equal(t, sees, strings.Contains(b.page(t, who, callPage("other", "refund", "order-8")), "account-4711"), who)
	}

	// An attempt has a name. If it is open for long, it is listed for that only.
	b.exec(t, `INSERT INTO tool_effect (scope, tool, key, state, fence, due_at, sent_at, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'acme', 'pay', 'order-' || n, 'running', n, now() + interval '1 hour', now() - interval '2 minutes', 1, false, '', now() - interval '3 minutes' - (n - 20) * interval '1 hour', now() FROM generate_series(20, 22) n`)
	page, needs := b.page(t, "scoped", "inflight"), b.page(t, "scoped", "attention")
	for _, key := range []string{"order-20", "order-21", "order-22"} {
		require.Contains(t, page, ">"+key+"</a>")
		require.Equal(t, 1, strings.Count(needs, ">"+key+"</a>"), key)
	}
	require.Equal(t, 1, strings.Count(needs, "on another process continues it"))

	// A call of this process is shown even if others cannot be read.
	b.exec(t, `ALTER TABLE tool_effect RENAME TO moved;
		CREATE VIEW tool_effect AS SELECT (1 / 0)::text AS scope, ''::text AS tool, ''::text AS key, ''::text AS state, now() AS sent_at, now() AS created_at, now() AS due_at`)
	page = b.page(t, "keeper", "inflight")
	require.Contains(t, page, "Only this process is shown.")
	require.Contains(t, page, ">order-8</a>")
}

// TestFromOverviewToCall follows two links from the overview to a call, with any scopes.
func TestFromOverviewToCall(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), 0)
	b.do(t, "other", "order-7")
	b.do(t, "acme", "order-1")
	b.breaks(t, "zone", "order-8")
	overview := b.page(t, "keeper", "")
	for _, text := range []string{"refund", "executed"} {
		records := b.page(t, "keeper", link(t, overview, text))
		require.Contains(t, b.page(t, "keeper", link(t, records, "order-7")), "hunter2")
		require.Contains(t, b.page(t, "keeper", link(t, records, "order-1")), "hunter2")
	}
	require.Contains(t, b.page(t, "keeper", link(t, overview, "broken")), "order-8")

	// A search without scope and tool asks for them.
	page := b.page(t, "keeper", "records?key=order-7")
	require.Contains(t, page, "enter both as well")
	require.Contains(t, page, ">other</a>")
	require.Contains(t, b.page(t, "keeper", link(t, page, "other")), ">order-7</a>")
	page = b.page(t, "scoped", "records?tool=refund")
	require.Contains(t, page, "order-1")
	require.NotContains(t, page, "order-7")
	require.NotContains(t, b.page(t, "keeper", "records?tool=none"), "order-")
	require.Equal(t, http.StatusBadRequest, b.get(t, "keeper", "records?scope=%00").code)
}

// TestMounts mounts the console in every way.
func TestMounts(t *testing.T) {
	t.Parallel()

	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	console, err := dedupweb.New(d, dedupweb.Options{Access: func(*http.Request) dedupweb.Access { return visitors["reader"] }})
	require.NoError(t, err)
	get := func(h http.Handler, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	for prefix, h := range map[string]http.Handler{
		"": console, "/a/console": http.StripPrefix("/a/console", console), "/console": http.StripPrefix("/console/", console),
	} {
		for path, kind := range map[string]string{"/": "text/html", "/audit": "text/html", "/style.css": "text/css", "/live.js": "text/javascript"} {
			got := get(h, prefix+path)
			require.Equal(t, http.StatusOK, got.Code, prefix+path)
			require.Contains(t, got.Header().Get("Content-Type"), kind)
		}
		require.Equal(t, http.StatusNotFound, get(h, prefix+"/else").Code)
	}
	got := get(http.StripPrefix("/a/console", console), "/a/console")
	require.Equal(t, http.StatusPermanentRedirect, got.Code)
	require.Equal(t, "console/", got.Header().Get("Location"))
}

// TestLongLists has more entries than the 100 that a list shows.
func TestLongLists(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.exec(t, `INSERT INTO tool_dedup SELECT 'acme', 'refund', 'order-' || lpad(n::text, 3, '0'), sha256(''), NULL, 'broken', NULL, now() - interval '1 hour', now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 150) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now() - interval '1 hour' + right(key, 3)::int * interval '1 microsecond', 'app', 'app', 'broken', scope, tool, key, 'broken', created_at, 'why' FROM tool_dedup;
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT CASE WHEN n % 2 = 0 THEN 'acme' ELSE 'other' END, 'pay', 'order-' || lpad(n::text, 3, '0'), 'parked', n, 0, false, sha256(''), now(), now() + n * interval '1 second' FROM generate_series(1, 350) n`)
	require.Contains(t, b.page(t, "keeper", "attention"), "The list is longer than shown.")

	page := b.page(t, "keeper", pages[5])
	require.Contains(t, page, "order-051")
	require.NotContains(t, page, "order-050")
	next := link(t, page, "More")
	page = b.page(t, "keeper", next)
	require.Contains(t, page, "order-050")
	require.NotContains(t, page, ">More<")
	require.Contains(t, b.page(t, "reader", pages[5]), "You need the right to see keys to go on.")

	page = b.page(t, "reader", link(t, b.page(t, "reader", "audit"), "Older"))
	require.Contains(t, page, dedup.KeyHash("order-050"))
	require.NotContains(t, page, dedup.KeyHash("order-051"))

	// Scopes and tools are limited too, each with its greatest key.
	b.exec(t, `INSERT INTO tool_dedup SELECT CASE WHEN n % 2 = 0 THEN 'acme' ELSE 's' || n END, 't' || n, 'k' || m, sha256(''), NULL, 'broken', NULL, now(), now() + interval '1 day', now() + interval '2 days' FROM generate_series(100, 299) n, generate_series(1, 2) m`)
	const more, last = "The list is longer than shown.", ">k2</a>"
	page = b.page(t, "keeper", "records")
	require.Equal(t, 99, strings.Count(page, last), "and refund")
	require.Contains(t, page, more)
	page = b.page(t, "scoped", "records?scope=acme")
	require.Equal(t, 99, strings.Count(page, last))
	require.Contains(t, page, more)
	for _, who := range []string{"keeper", "scoped"} {
		page = b.page(t, who, "records?tool=t200")
		require.Equal(t, 1, strings.Count(page, last))
		require.NotContains(t, page, more)
	}
	require.Equal(t, 1, strings.Count(b.page(t, "keeper", "records?tool=t299"), last))
	require.NotContains(t, b.page(t, "scoped", "records?tool=t299"), last)

	page = b.page(t, "scoped", "attention")
	require.Contains(t, page, ">order-200<")
	require.NotContains(t, page, ">order-201<")
	require.NotContains(t, page, ">order-202<")
	require.Contains(t, page, "The list is longer than shown.")
}

// link returns the target of a page's link.
func link(t *testing.T, page, text string) string {
	t.Helper()
	found := regexp.MustCompile(`href="([^"]+)">` + text + `<`).FindStringSubmatch(page)
	require.NotNil(t, found, text)
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// TestVerdictForm gives a verdict. The form begins with the zero value of the tool's result. A
// wrong result is not stored, and the form keeps its fields.
func TestVerdictForm(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), time.Minute)
	b.park(t, "acme", "order-9")
	page := b.page(t, "actor", callPage("acme", "pay", "order-9"))
	require.Contains(t, page, "{\n  &#34;id&#34;: &#34;&#34;\n}</textarea>")
	require.Contains(t, page, "Schema of the result")
	for _, result := range []string{`{"name": "re_1"}`, `{"id": 7}`, `{`, `[]`} {
		act := form(page, "verdict", "happened", "result", result, "reason", "in the books & seen")
		got := b.post(t, "actor", "resolve", act)
		require.Equal(t, http.StatusBadRequest, got.code, result)
		require.Contains(t, got.text, `role="alert"`, result)
		require.Contains(t, got.text, ">"+html.EscapeString(result)+"</textarea>", result)
		require.Contains(t, got.text, `value="in the books &amp; seen"`, result)
		require.Contains(t, got.text, `value="happened" required checked`, result)
		require.Contains(t, got.text, "<details open>", result)
	}
	status, err := b.tools.Status(t.Context(), "acme", "pay", "order-9")
	require.NoError(t, err)
	require.Empty(t, status.Operation.Verdict)

	got := b.post(t, "actor", "resolve", form(page, "verdict", "happened", "result", `{"id":"re_1"}`))
	require.Equal(t, http.StatusBadRequest, got.code)
	require.Contains(t, got.text, "Give a reason")
	require.Contains(t, got.text, "re_1")
}

// TestCleared clears an operation that happened twice on its call's page.
func TestCleared(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), 0)
	b.park(t, "acme", "order-9")
	page := callPage("acme", "pay", "order-9")
	act := form(b.page(t, "actor", page), "verdict", "happened", "result", `{"id":"re_1"}`, "reason", "seen")
	require.Equal(t, http.StatusSeeOther, b.post(t, "actor", "resolve", act).code)
	require.NotContains(t, b.page(t, "actor", page), "<form")
	b.exec(t, `UPDATE tool_effect SET twice = 're_2', ref = 're_1'`)
	require.Contains(t, b.page(t, "actor", "attention"), "happened twice")
	require.NotContains(t, b.page(t, "keeper", page), "<form")
	act = form(b.page(t, "actor", page), "reason", "re_2 is taken back")
	require.Equal(t, "cleared", act.Get("verdict"))
	got := b.post(t, "actor", "resolve", act)
	require.Equal(t, http.StatusSeeOther, got.code, got.text)
	require.NotContains(t, b.page(t, "actor", "attention"), "order-9")
	require.Equal(t, http.StatusConflict, b.post(t, "actor", "resolve", act).code)
}

// TestMend gives a broken record its result.
func TestMend(t *testing.T) {
	t.Parallel()

	b := setup(t, pgtest.New(t), 0)
	b.breaks(t, "acme", "order-8")
	page := callPage("acme", "refund", "order-8")
	require.NotContains(t, b.page(t, "keeper", page), "<form")
	act := form(b.page(t, "actor", page), "reason", "completed by hand", "result", `"hunter2`)
	got := b.post(t, "actor", "resolve", act)
	require.Equal(t, http.StatusBadRequest, got.code)
	require.Contains(t, got.text, "&#34;hunter2</textarea>")
	act.Set("result", `"hunter2"`)
	require.Equal(t, http.StatusForbidden, b.post(t, "keeper", "resolve", act).code)
	got = b.post(t, "actor", "resolve", act)
	require.Equal(t, http.StatusSeeOther, got.code, got.text)
	after := b.page(t, "keeper", page)
	require.Contains(t, after, "hunter2")
	require.Contains(t, after, "happened</span> by actor: completed by hand")
	require.NotContains(t, b.page(t, "keeper", "attention"), "order-8")
	b.do(t, "acme", "order-8") // a replay
	require.Equal(t, http.StatusConflict, b.post(t, "actor", "resolve", act).code)
}
