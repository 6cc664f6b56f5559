package external

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// statements are the SQL of tool_effect. $1 to $3 are the identity. In statements that change a
// row, $4 is the fence with which it was read.
type statements struct {
	durable string // turns synchronous_commit on for the transaction, if it is off
	// The inserts of Do and Accept, and reads.
	claim, accept           wire.Query
	read, parked, open, due string
	// Changes by an act: before the answer, with it, and after it.
	take, hold, exists, release, postpone, settleLater, park, keep string
	done, refused, orphaned, twice                                 string
	recheck, rechecked                                             string
	// Deletes of old rows. If rows are spread over nodes, forgetOf deletes scope by scope.
	forgetOne, forget, scopes, forgetOf string
	// Verdicts on an operation without an answer, and on one that happened twice.
	verdict, cleared verdictStatement
}

// verdictStatement is a statement with a line in the audit, and without.
type verdictStatement struct{ audited, plain string }

// columns are the columns of a row, in the order of row.fields. shown reads them: its times and
// bytes are in the formats of table.Micros and table.Hex, which no setting of a session changes.
const columns = `e.scope, e.tool, e.key, e.state, e.fence, e.due_at, e.sent_at, e.sent_until, e.tries, e.looked, e.keyless, e.unmarked, e.confirmed,
       e.fingerprint, e.arg_digests, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       e.created_at, e.changed_at, e.forget_at`

var shown = `e.scope, e.tool, e.key, e.state, e.fence, ` + micros("e.due_at", "e.sent_at", "e.sent_until") + `, e.tries, e.looked, e.keyless, e.unmarked, e.confirmed,
       ` + table.Hex("e.fingerprint") + `, ` + table.Hex("e.arg_digests") + `, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       ` + micros("e.created_at", "e.changed_at", "e.forget_at")

// shownOrNone is shown for an outer join: without a row the state is StateNone.
var shownOrNone = `COALESCE(e.scope, ''), COALESCE(e.tool, ''), COALESCE(e.key, ''), COALESCE(e.state, ''),
       COALESCE(e.fence, 0), ` + micros("e.due_at", "e.sent_at", "e.sent_until") + `, COALESCE(e.tries, 0), COALESCE(e.looked, false),
       COALESCE(e.keyless, false), COALESCE(e.unmarked, false), COALESCE(e.confirmed, false),
       ` + table.Hex("e.fingerprint") + `, ` + table.Hex("e.arg_digests") + `, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       ` + micros("COALESCE(e.created_at, clock.t)", "COALESCE(e.changed_at, clock.t)", "e.forget_at")

// micros applies table.Micros to each column.
func micros(times ...string) string {
	for i, t := range times {
		times[i] = table.Micros(t)
	}
	return strings.Join(times, ", ")
}

// placeholders replaces the words in braces in the texts below.
//
// All times are by the database's clock, read before a statement waits for a row. So a lease may
// end early, never late, and a due row stays due. Citus forces this too: it allows no volatile
// function in an UPDATE, and adds an interval only to a time without a time zone.
//
// A fence is that time in microseconds, or the row's last fence plus one if that is greater. A
// sequence would not do: replication does not copy it, and a role would need a privilege on it.
func placeholders(schema string) *strings.Replacer {
	fence := table.Micros("clock.t")
	const id = "e.scope = $1::text AND e.tool = $2::text AND e.key = $3::text"
	record := pgx.Identifier{schema, "tool_dedup"}.Sanitize()
	all := []string{
		"{effect}", pgx.Identifier{schema, "tool_effect"}.Sanitize(),
		"{record}", record,
		"{columns}", columns, "{shown}", shown, "{shown or none}", shownOrNone, "{clock}", fence,
		"{shown now}", table.Micros("pg_catalog.clock_timestamp()"),
		"{now}", "pg_catalog.clock_timestamp()",
		"{id}", id,
		"{unchanged}", id + " AND e.fence = $4::bigint", // the row has not changed since it was read
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
	text := placeholders(schema).Replace
	s := &statements{
		durable: `SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
       THEN pg_catalog.set_config('synchronous_commit', 'on', true) END`,

		// $7: the lease, $8: the claim's nonce, $9: keyless, $10: unmarked.
		claim: wire.NewQuery(text(claimSQL(`'running', {fence}, clock.t + $7::interval, clock.t, clock.t + $7::interval, 1, $8::text,
           $9::bool, $10::bool`))),
		accept: wire.NewQuery(text(claimSQL("'pending', {fence}, clock.t, NULL, NULL, 0, NULL, false, false"))),
		read:   text(`SELECT {shown}, {shown now} FROM {effect} AS e WHERE {id}`),
		// $1 to $4: the last row of the page before, $5: the limit, $6: the scopes, NULL for all.
		parked: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE (e.state = 'parked' OR e.twice IS NOT NULL)
   AND (e.changed_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
   AND ($6::text[] IS NULL OR e.scope = ANY ($6::text[]))
 ORDER BY e.changed_at, e.scope, e.tool, e.key LIMIT $5::bigint`),
		// $7: the least age. Every open operation has a due_at, and so has a done one whose key
		// waits for its recheck. No index helps the sort.
		open: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE e.due_at IS NOT NULL AND (e.state IN ('pending', 'running') OR e.state = 'done' AND e.forget_at <= {now})
   AND e.created_at <= {now} - $7::interval
   AND (e.created_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
   AND ($6::text[] IS NULL OR e.scope = ANY ($6::text[]))
 ORDER BY e.created_at, e.scope, e.tool, e.key LIMIT $5::bigint`),
		// $1: the tool, $2: the limit, $3: parked operations too.
		due: text(`SELECT {shown}, {shown now} FROM {effect} AS e
 WHERE e.tool = $1::text AND e.due_at <= {now} AND ($3::bool OR e.state <> 'parked') ORDER BY e.due_at LIMIT $2::bigint`),

		forget: text(`DELETE FROM {effect} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {effect} WHERE {forgettable} LIMIT 1000 FOR UPDATE SKIP LOCKED))`),
		scopes: text(`SELECT DISTINCT scope FROM {effect} WHERE {forgettable}`),
		forgetOf: text(`DELETE FROM {effect} WHERE scope = $1::text AND ctid = ANY (ARRAY(
    SELECT ctid FROM {effect} WHERE scope = $1::text AND {forgettable} LIMIT 1000 FOR UPDATE SKIP LOCKED))`),
		forgetOne: text(clock + `DELETE FROM {effect} AS e USING clock
 WHERE {unchanged} AND e.state = 'done' AND e.due_at IS NULL AND NOT {recorded}
   AND e.forget_at <= (clock.t AT TIME ZONE 'UTC' + interval '1 day') AT TIME ZONE 'UTC'`),
	}
	s.changes(text)
	s.verdicts(schema, text)
	return s
}

// claimSQL reads record and row, and inserts a row if there is neither. If a twin inserts one after
// this statement's snapshot, the result has no row. The row is read before the record: on Citus the
// two reads are not one snapshot, and a row that is done must come with its record.
func claimSQL(values string) string {
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

// clock is the first part of every change. It turns synchronous_commit on: a crash must not lose a
// row that prevents another attempt.
const clock = `WITH clock AS MATERIALIZED (SELECT {now} AS t, session_user::text AS me,
       (pg_catalog.current_setting('synchronous_commit') <> 'off'
        OR pg_catalog.set_config('synchronous_commit', 'on', true) = 'on') AS lasts)
`

// update changes and returns a row if a condition holds.
func update(where, set string) string { return updateKeepingTime("false", where, set) }

// updateKeepingTime is update, but leaves changed_at unchanged if kept holds. A parked row keeps
// the time at which it was parked, and one with a verdict the verdict's time.
func updateKeepingTime(kept, where, set string) string {
	return clock + `UPDATE {effect} AS e
   SET changed_at = CASE WHEN ` + kept + ` THEN e.changed_at ELSE clock.t END,
       ` + set + `
  FROM clock
 WHERE ` + where + ` AND clock.lasts
RETURNING {shown}, {clock}`
}

// hasRef is true if a list of refs contains a ref.
func hasRef(refs, ref string) string {
	return "position(' ' || " + ref + " || ' ' IN ' ' || COALESCE(" + refs + ", '') || ' ') > 0"
}

// withRef adds a ref to a list, unless it is NULL or already there.
func withRef(refs, ref string) string {
	return fmt.Sprintf("CASE WHEN %s THEN %[2]s ELSE COALESCE(%[2]s || ' ' || %[3]s, %[3]s, %[2]s) END", hasRef(refs, ref), refs, ref)
}

// withoutRef removes from the further effects the ref that is now the answer's.
func withoutRef(ref string) string {
	return "NULLIF(btrim(replace(' ' || e.twice || ' ', ' ' || " + ref + " || ' ', ' ')), '')"
}

// withFurther adds a ref to the further effects if it differs from the row's.
func withFurther(ref string) string {
	return withRef("e.twice", "CASE WHEN e.ref <> "+ref+" THEN "+ref+" END")
}

// audited adds a line of the audit to a change. Its arguments are SQL expressions.
func audited(schema, plain, actor, verdict, state, reason string) verdictStatement {
	changed := strings.Replace(plain, shown+", "+table.Micros("clock.t"), columns+", clock.t", 1)
	return verdictStatement{plain: plain, audited: "WITH changed AS (" + changed + "), audited AS (" +
		table.AuditInsert(schema, "changed", actor, verdict, state, reason) + ") SELECT " + shown + ", " + table.Micros("e.t") + " FROM changed AS e"}
}
