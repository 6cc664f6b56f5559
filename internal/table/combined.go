package table

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// EffectName is the WITH query that holds a caller's statement.
const EffectName = "tool_dedup_effect"

// CombinedParams is how many parameters a combined statement has behind the caller's.
const CombinedParams = 10

// gateMark begins what the gate raises, as the text that is no boolean.
const gateMark = "tool_dedup: "

// Effect is the text that runs a statement, which stands in a WITH clause as EffectName.
// It returns how many rows it gave, and the row.
func (t *Table) Effect(with string) wire.Query {
	return wire.NewQuery(with + `
SELECT count(*), max(row_to_json(effect.*)::text) FROM ` + EffectName + ` AS effect`)
}

// Combined are the texts that run a statement, which stands in a WITH clause as
// EffectName, and write its record. They have the statement's parameters, and then those
// of QueueCombined. The first stands alone, the second among others behind QueueArrival.
//
// What must be known before the effect comes first and raises (no text but 'true' is a
// boolean): that there is no record, and that no twin is in flight, which the primary key
// would wait for. So duplicates and twins write nothing. A sub-select of its own in a CASE
// is run when the CASE comes to it, and not before; OFFSET 0 keeps it from being put in
// twice. None of this decides between twins: the primary key does.
//
// A statement that arrives too late raises, so that there is an end to the doubt about one
// whose answer was lost. The time is looked at after the lock is taken: whoever finds the
// lock free later than that time knows that nothing comes.
//
// An outcome of NULL raises as well: the effect returned no row, or too long a one, or has
// changed the encoding in which texts are sent and read. Then the next statement of its
// transaction would store its key as other characters, and the key's next call would be a
// stranger. Several rows raise by themselves.
func (t *Table) Combined(with string, params int) (alone, among wire.Query) {
	// p is the text of the library's nth parameter.
	p := func(n int) string { return "$" + strconv.Itoa(params+n) }
	const durable = `
                         WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
                              AND pg_catalog.set_config('synchronous_commit', 'on', true) <> 'on' THEN '` + gateMark + `synchronous_commit could not be turned on'`
	text := func(lookUp, late string) wire.Query {
		return wire.NewQuery(with + `
INSERT INTO ` + t.Name + ` ` + insertColumns + `
SELECT ` + p(1) + `::text, ` + p(2) + `::text, ` + p(3) + `::text, ` + p(4) + `::bytea, ` + p(5) + `::bytea,
       CASE WHEN octet_length(effect.result) <= ` + strconv.Itoa(t.opts.MaxResultBytes) + ` AND pg_catalog.pg_client_encoding() = 'UTF8'` + limited(p(10)) + ` THEN 'done' END, effect.result,
       effect.ended, effect.ended + ` + p(6) + `::interval, effect.ended + ` + p(7) + `::interval
  FROM (SELECT CASE WHEN (CASE` + lookUp + `
                         WHEN NOT pg_catalog.pg_try_advisory_xact_lock(` + p(8) + `::bigint) THEN '` + gateMark + `a twin of this call is in flight'
                         WHEN pg_catalog.clock_timestamp() > ` + p(9) + `::timestamptz` + late + ` THEN '` + gateMark + `this call arrived too late'` + durable + `
                         ELSE 'true' END)::boolean
               THEN (SELECT row_to_json(effect.*)::text FROM ` + EffectName + ` AS effect) END AS result, pg_catalog.clock_timestamp() AS ended OFFSET 0) AS effect
RETURNING result, CASE WHEN ` + p(10) + `::text IS NULL OR pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('tool_dedup.lock_timeout'), true) IS NOT NULL THEN created_at END`)
	}
	alone = text(fmt.Sprintf(`
                         WHEN EXISTS (SELECT FROM %s WHERE scope = %s::text AND tool = %s::text AND key = %s::text) THEN '%sthis call has a record'`,
		t.Name, p(1), p(2), p(3), gateMark), "")
	return alone, text("", fmt.Sprintf(`
                              AND %s::bigint::text = ANY (string_to_array(pg_catalog.current_setting('tool_dedup.missed', true), ','))`, p(8)))
}

// limited is a condition that always holds, and limits how long the INSERT waits for
// a twin that does not hold the identity's lock. It is evaluated behind the effect,
// whose own waits it must not cut short. RETURNING gives the session's own limit back, for
// what is run behind the INSERT: triggers, other WITH queries, the next of many statements.
func limited(limit string) string {
	return `
              AND (` + limit + `::text IS NULL OR pg_catalog.set_config('tool_dedup.lock_timeout', pg_catalog.current_setting('lock_timeout'), true) IS NOT NULL
                   AND pg_catalog.set_config('lock_timeout', ` + shorterTimeout(limit+"::bigint", `pg_catalog.current_setting('lock_timeout')`) + `, true) IS NOT NULL)`
}

// QueueCombined queues a combined statement. It raises where it arrives after latest, among
// others only if its lock was not free when they arrived, and waits no longer than wait for a
// twin that does not hold the identity's lock; zero is no limit.
func QueueCombined(p *wire.Pipeline, q wire.Query, args []any, e *Entry, latest *time.Time, wait time.Duration) error {
	var limit any
	if wait != 0 {
		ms := lockTimeout(wait)
		limit = &ms
	}
	return p.QueueArgs(q, args, &e.Scope, &e.Tool, &e.Key, &e.Fingerprint, &e.ArgDigests, &e.Keep, &e.Forget, &e.Lock, latest, limit)
}

// ReadCombined reads the result and the time of the record that a combined statement wrote.
// Without a time the record was swallowed.
func ReadCombined(p *wire.Pipeline, e *Entry, r *Record) {
	if p.Scan(&r.Result, &r.CreatedAt) {
		r.written(p, e)
	}
}

// QueueArrival queues what comes before the combined statements of many entries. It raises
// where one of them has a record, and where it arrives after latest: the last of the
// statements may be run much later. It takes the locks of all of them that are free, and
// notes those that are not: whoever finds one of these free later than latest must be
// right that nothing comes.
func (t *Table) QueueArrival(p *wire.Pipeline, entries []*Entry, latest *time.Time) {
	locks := make([]int64, len(entries))
	for i, e := range entries {
		locks[i] = e.Lock
	}
	scopes, tools, keys := names(entries)
	p.Ignore(t.Arrival, scopes, tools, keys, locks, latest)
}

// arrival is the text of Table.Arrival.
func arrival(table string) string {
	return `SELECT (CASE WHEN EXISTS (SELECT FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (scope, tool, key)
                           JOIN ` + table + ` AS r ON r.scope = wanted.scope AND r.tool = wanted.tool AND r.key = wanted.key) THEN '` + gateMark + `a call of these has a record'
             WHEN tried.n > 0 AND pg_catalog.clock_timestamp() > $5::timestamptz THEN '` + gateMark + `these calls arrived too late'
             WHEN pg_catalog.set_config('tool_dedup.missed', tried.missed, true) IS NULL THEN ''
             ELSE 'true' END)::boolean
  FROM (SELECT count(*) AS n, COALESCE(string_agg(took.lock::text, ',') FILTER (WHERE NOT took.got), '') AS missed
          FROM (SELECT wanted.lock, pg_catalog.pg_try_advisory_xact_lock(wanted.lock) AS got FROM unnest($4::bigint[]) AS wanted (lock) OFFSET 0) AS took OFFSET 0) AS tried`
}

// IsRecordInTheWay reports whether an error of a combined statement says that there most
// likely is a record or a twin: the gate raised it, or the primary key.
func IsRecordInTheWay(err error) bool {
	state := wire.SQLState(err)
	return state == wire.CodeUniqueViolation || state == wire.CodeInvalidText
}

// MayBeStale reports whether types that no longer fit may have caused an error of a combined
// statement: any but a record that is there, which is what most of them are.
func MayBeStale(err error) bool {
	var server *pgconn.PgError
	return !errors.As(err, &server) || server.Code != wire.CodeUniqueViolation &&
		(server.Code != wire.CodeInvalidText || !strings.Contains(server.Message, gateMark))
}
