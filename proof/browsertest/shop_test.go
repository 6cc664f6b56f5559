package browsertest

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// The calls of a shop, one of each kind.
var (
	done      = call{Scope: "acme", Tool: "create_ticket", Key: "01K4ZQ5T8C2VJ9E6M3XH7NR0WD"}
	refused   = call{Scope: "acme", Tool: "create_ticket", Key: "01K4ZQ6B1R8S0YF5QWJ2D9GT4A"}
	broken    = call{Scope: "acme", Tool: "import_orders", Key: "import-2026-11-22"}
	parked    = call{Scope: "acme", Tool: "charge_card", Key: "order-8812/charge"}
	elsewhere = call{Scope: "globex", Tool: "charge_card", Key: "order-9020/charge"}
	running   = call{Scope: "acme", Tool: "export_report", Key: "report-2026-q3"}
	freed     = call{Scope: "globex", Tool: "send_invoice", Key: "invoice-2207"}
	never     = call{Scope: "acme", Tool: "create_ticket", Key: "never made"}
	offender  = call{Scope: "acme", Tool: "create_ticket", Key: `<i>a "key" & a long one, ` + "with-neither-a-space-nor-a-hyphen-that-a-browser-likes-to-break-at_and_more_of_it_and_more_of_it"}
)

// call is a call of the shop.
type call dedup.Call

// page is the address of its page.
func (c call) page() string {
	return "call?" + url.Values{"scope": {c.Scope}, "tool": {c.Tool}, "key": {c.Key}}.Encode()
}

// newShop is a console with data on each of its pages.
func newShop(t *testing.T) *console {
	t.Helper()
	c := newConsole(t)
	for range 2 {
		c.do(t, done, map[string]any{"ticket": 4711, "title": "Refund does not arrive", "url": "https://shop.example/tickets/4711"})
		c.do(t, offender, []string{"<script>alert(1)</script>"})
	}
	c.do(t, refused, dedup.Final(errors.New("the customer's account is closed")))
	c.do(t, freed, "sent")
	_, err := c.d.Reset(t.Context(), freed.Scope, freed.Tool, freed.Key, dedup.ChangeOptions{Actor: "ada", Reason: "The mail server took it and lost it; sent again by hand, #2207"})
	require.NoError(t, err)
	c.breaks(t, broken)
	c.park(t, parked)
	c.park(t, elsewhere)
	c.hold(t, running)
	c.exec(t, `UPDATE tool_effect SET twice = 'ch_2', ref = 'ch_1' WHERE scope = 'globex'`)
	c.exec(t, `INSERT INTO tool_dedup SELECT scope, tool, 'overdue', fingerprint, arg_digests, outcome, result, created_at - interval '2 days', now() - interval '3 hours', now() + interval '1 day'
		FROM tool_dedup WHERE tool = 'create_ticket' LIMIT 1`)
	c.day(t)
	return c
}

// newArchive is a console whose lists have several pages.
func newArchive(t *testing.T) *console {
	t.Helper()
	c := newConsole(t)
	c.exec(t, `INSERT INTO tool_dedup SELECT 'acme', 'refund', 'order-' || n, sha256(''), NULL, 'broken', NULL, now() - interval '1 day', now() + interval '1 day', now() + interval '2 days' FROM generate_series(1, 101) n;
		INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
		SELECT now() - interval '1 hour', 'app', 'app', 'broken', scope, tool, key, 'broken', created_at, 'the transaction was ended' FROM tool_dedup;
		INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
		SELECT 'acme', 'pay', 'order-' || n, 'parked', n, 0, false, sha256(''), now(), now() + n * interval '1 second' FROM generate_series(1, 101) n`)
	return c
}

func (c *console) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := c.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// day writes a day's counts of Sweepers: traffic that rises and falls, and a storm of repeats on
// one tool.
func (c *console) day(t *testing.T) {
	t.Helper()
	for tool, calls := range map[string]int{"create_ticket": 140, "charge_card": 55, "send_invoice": 90, "import_orders": 6, "export_report": 3} {
		_, err := c.pool.Exec(t.Context(), fmt.Sprintf(`INSERT INTO tool_dedup_stat (at, instance, tool, outcome, calls, seconds, waited)
			SELECT now() - n * interval '10 minutes', 'shop-1', %s, outcome, greatest(calls::bigint, 1), calls * 0.0123, 0
			  FROM generate_series(0, 14 * 144 - 1) n, LATERAL (VALUES
			       ('executed', %[2]d * (1.2 + sin(n / 23.0))),
			       ('replayed', %[2]d * 0.04 * (1 + sin(n / 23.0)) + CASE WHEN %[1]s = 'send_invoice' AND n BETWEEN 40 AND 58 THEN 130 - 12 * abs(n - 49) ELSE 0 END),
			       ('refused', CASE WHEN n %% 7 = 3 THEN %[2]d * 0.03 ELSE 0 END),
			       ('error', CASE WHEN n %% 31 = 8 THEN 3 ELSE 0 END),
			       ('unknown', CASE WHEN n = 90 THEN 9 ELSE 0 END)) AS o (outcome, calls)
			 WHERE calls > 0`, "'"+tool+"'", calls), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
}
