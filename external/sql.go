package external

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// statements are the SQL of tool_effect. $1 to $3 are the identity, and $4 is the fence with which the row was
// read, in what changes it.
type statements struct {
	durable string // makes the transaction one that a server which crashes does not forget
	// What looks, and claims what is free.
	claim, accept, read, parked, open, due string
	// What an act does to its operation before it has an answer, with it, and after it.
	take, hold, exists, release, postpone, settleLater, park string
	done, refused, orphaned, twice                           string
	audit, audited                                           string
	// What may be forgotten is deleted scope by scope where rows are spread.
	forgetOne, forget, scopes, forgetOf string
	// What a person says of an operation without an answer, and of one that happened twice.
	verdict, cleared said
}

// said is a statement with a line in the audit, and without.
type said struct{ audited, plain string }

// columns are those of a row, in the order of row.fields. shown is how they are read: its times and
// bytes are as table.Micros and table.Hex have them, because a session may write them in other ways.
const columns = `e.scope, e.tool, e.key, e.state, e.fence, e.due_at, e.sent_at, e.sent_until, e.tries, e.looked, e.keyless, e.unmarked, e.confirmed,
       e.fingerprint, e.arg_digests, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       e.created_at, e.changed_at, e.forget_at`

var shown = `e.scope, e.tool, e.key, e.state, e.fence, ` + micros("e.due_at", "e.sent_at", "e.sent_until") + `, e.tries, e.looked, e.keyless, e.unmarked, e.confirmed,
       ` + table.Hex("e.fingerprint") + `, ` + table.Hex("e.arg_digests") + `, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       ` + micros("e.created_at", "e.changed_at", "e.forget_at")

// shownOrNone is shown where there may be no row: then its state is None.
var shownOrNone = `COALESCE(e.scope, ''), COALESCE(e.tool, ''), COALESCE(e.key, ''), COALESCE(e.state, ''),
       COALESCE(e.fence, 0), ` + micros("e.due_at", "e.sent_at", "e.sent_until") + `, COALESCE(e.tries, 0), COALESCE(e.looked, false),
       COALESCE(e.keyless, false), COALESCE(e.unmarked, false), COALESCE(e.confirmed, false),
       ` + table.Hex("e.fingerprint") + `, ` + table.Hex("e.arg_digests") + `, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       ` + micros("COALESCE(e.created_at, clock.t)", "COALESCE(e.changed_at, clock.t)", "e.forget_at")

// micros is table.Micros of each.
func micros(times ...string) string {
	for i, t := range times {
		times[i] = table.Micros(t)
	}
	return strings.Join(times, ", ")
}

// words are what the texts below have in braces.
//
// All times are those of the database's clock, read before a statement waits for a row: a lease that begins early
// ends early, and what was due is due still. Citus wants it so, which takes no volatile function in a change of a
// row, and no sum of a column and an interval but one without a time zone.
//
// A fence is that time in microseconds, or one more than the row's last fence if that is greater. It has no sequence:
// replication moves rows and no sequences, and a role would need a privilege on it.
func words(schema string) *strings.Replacer {
	const fence = "(extract(epoch FROM clock.t AT TIME ZONE 'UTC') * 1000000)::bigint"
	const id = "e.scope = $1::text AND e.tool = $2::text AND e.key = $3::text"
	record := pgx.Identifier{schema, "tool_dedup"}.Sanitize()
	all := []string{
		"{effect}", pgx.Identifier{schema, "tool_effect"}.Sanitize(),
		"{record}", record,
		"{columns}", columns, "{shown}", shown, "{shown or none}", shownOrNone, "{clock}", table.Micros("clock.t"),
		"{shown now}", table.Micros("pg_catalog.clock_timestamp()"),
		"{now}", "pg_catalog.clock_timestamp()",
		"{id}", id,
		"{mine}", id + " AND e.fence = $4::bigint", // nobody has acted since the row was read
		"{recorded}", "EXISTS (SELECT FROM " + record + ` AS r
       WHERE r.scope = $1::text AND r.tool = $2::text AND r.key = $3::text AND r.forget_at > clock.t)`,
		"{forgettable}", "forget_at <= pg_catalog.statement_timestamp() AND due_at IS NULL",
		"{fence}", fence, "{next}", "GREATEST(" + fence + ", e.fence + 1)",
	}
	for _, parameter := range []string{"$5", "$6", "$7"} {
		all = append(all,
			"{in "+parameter+"}", "(clock.t AT TIME ZONE 'UTC' + "+parameter+"::interval) AT TIME ZONE 'UTC'",
			"{a day after "+parameter+"}", "(clock.t AT TIME ZONE 'UTC' + "+parameter+"::interval + interval '1 day') AT TIME ZONE 'UTC'")
	}
	return strings.NewReplacer(all...)
}

func newStatements(schema string) *statements {
	text := words(schema).Replace
	s := &statements{
		durable: `SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
       THEN pg_catalog.set_config('synchronous_commit', 'on', true) END`,

		// $7: the lease, $8: what tells the claim from others, $9 and $10: the attempt has no key, and the tool no Find.
		claim: text(look(`'running', {fence}, clock.t + $7::interval, clock.t, clock.t + $7::interval, 1, $8::text,
           $9::bool, $10::bool`)),
		accept: text(look("'pending', {fence}, clock.t, NULL, NULL, 0, NULL, false, false")),
		read:   text(`SELECT {shown}, {shown now} FROM {effect} AS e WHERE {id}`),
		// $1 to $4: the place of the operation before, $5: how many, $6: the scopes, NULL for all.
		parked: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE (e.state = 'parked' OR e.twice IS NOT NULL)
   AND (e.changed_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
   AND ($6::text[] IS NULL OR e.scope = ANY ($6::text[]))
 ORDER BY e.changed_at, e.scope, e.tool, e.key LIMIT $5::bigint`),
		// $7: the age. What is open is due at some time, and so is what blocks its key until it is looked at once more.
		// It is sorted, since no index is by its age.
		open: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE e.due_at IS NOT NULL AND (e.state IN ('pending', 'running') OR e.state = 'done' AND e.forget_at <= {now})
   AND e.created_at <= {now} - $7::interval
   AND (e.created_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
   AND ($6::text[] IS NULL OR e.scope = ANY ($6::text[]))
 ORDER BY e.created_at, e.scope, e.tool, e.key LIMIT $5::bigint`),
		// $1: the tool, $2: how many.
		due: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE e.tool = $1::text AND e.due_at <= {now} ORDER BY e.due_at LIMIT $2::bigint`),

		forget: text(`DELETE FROM {effect} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {effect} WHERE {forgettable} LIMIT 1000 FOR UPDATE SKIP LOCKED))`),
		scopes: text(`SELECT DISTINCT scope FROM {effect} WHERE {forgettable}`),
		forgetOf: text(`DELETE FROM {effect} WHERE scope = $1::text AND ctid = ANY (ARRAY(
    SELECT ctid FROM {effect} WHERE scope = $1::text AND {forgettable} LIMIT 1000 FOR UPDATE SKIP LOCKED))`),
		forgetOne: text(clock + `DELETE FROM {effect} AS e USING clock
 WHERE {mine} AND e.state = 'done' AND e.due_at IS NULL AND NOT {recorded}
   AND e.forget_at <= (clock.t AT TIME ZONE 'UTC' + interval '1 day') AT TIME ZONE 'UTC'`),
	}
	s.changes(text)
	s.verdicts(schema, text)
	return s
}

// look reads record and row, and inserts a row where neither is there. One that is inserted by somebody else meanwhile
// is seen by nobody here: then the answer has no row. The row is read first. Where the two are not read at once, as on
// Citus, one that is done has its record all the same.
func look(values string) string {
	return `WITH clock AS MATERIALIZED (SELECT {now} AS t),
old AS (SELECT {columns} FROM {effect} AS e WHERE {id}),
rec AS (SELECT fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at FROM {record}
     WHERE scope = $1::text AND tool = $2::text AND key = $3::text),
new AS (INSERT INTO {effect} AS e (scope, tool, key, state, fence, due_at, sent_at, sent_until, tries, note, keyless, unmarked,
          looked, fingerprint, arg_digests, input, created_at, changed_at)
    SELECT $1::text, $2::text, $3::text, ` + values + `, false,
           $4::bytea, $5::bytea, $6::text, clock.t, clock.t
      FROM clock
     WHERE NOT EXISTS (SELECT FROM old) AND NOT EXISTS (SELECT FROM rec WHERE rec.forget_at > clock.t)
    ON CONFLICT DO NOTHING
    RETURNING {columns})
SELECT ` + table.Hex("rec.fingerprint") + `, ` + table.Hex("rec.arg_digests") + `, rec.outcome, rec.result,
       ` + micros("rec.created_at", "rec.expires_at", "rec.forget_at") + `,
       COALESCE(e.mine, false), {shown or none}, {clock}
  FROM clock
  LEFT JOIN rec ON true
  LEFT JOIN (SELECT *, false AS mine FROM old UNION ALL SELECT *, true FROM new) AS e ON true`
}

// clock comes before a change. A server that crashes must not forget what keeps an attempt from being made again.
const clock = `WITH clock AS MATERIALIZED (SELECT {now} AS t, session_user::text AS me,
       (pg_catalog.current_setting('synchronous_commit') <> 'off'
        OR pg_catalog.set_config('synchronous_commit', 'on', true) = 'on') AS lasts)
`

// changing changes a row where a condition holds, and returns it.
func changing(where, set string) string { return changingUnless("false", where, set) }

// changingUnless leaves changed_at as it is where kept holds: a parked row keeps the time at which it was parked, and
// one with a verdict the time of that.
func changingUnless(kept, where, set string) string {
	return clock + `UPDATE {effect} AS e
   SET changed_at = CASE WHEN ` + kept + ` THEN e.changed_at ELSE clock.t END,
       ` + set + `
  FROM clock
 WHERE ` + where + ` AND clock.lasts
RETURNING {shown}, {clock}`
}

// among holds where a ref is one of several.
func among(refs, ref string) string {
	return "position(' ' || " + ref + " || ' ' IN ' ' || COALESCE(" + refs + ", '') || ' ') > 0"
}

// plus are refs with one more, where that is not NULL and not among them.
func plus(refs, ref string) string {
	return fmt.Sprintf("CASE WHEN %s THEN %[2]s ELSE COALESCE(%[2]s || ' ' || %[3]s, %[3]s, %[2]s) END", among(refs, ref), refs, ref)
}

// without are the refs of further effects without one, which is the answer's now.
func without(ref string) string {
	return "NULLIF(btrim(replace(' ' || e.twice || ' ', ' ' || " + ref + " || ' ', ' ')), '')"
}

// further are the refs of further effects, when one may be another than the row's.
func further(ref string) string {
	return plus("e.twice", "CASE WHEN e.ref <> "+ref+" THEN "+ref+" END")
}

// audited adds a line in the audit to a change. Its values are SQL.
func audited(schema, plain, actor, verdict, state, reason string) said {
	changed := strings.Replace(plain, shown+", "+table.Micros("clock.t"), columns+", clock.t", 1)
	return said{plain: plain, audited: "WITH changed AS (" + changed + "), audited AS (" +
		table.AuditInsert(schema, "changed", actor, verdict, state, reason) + ") SELECT " + shown + ", " + table.Micros("e.t") + " FROM changed AS e"}
}
