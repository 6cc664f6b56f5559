package external

import (
	"cmp"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// statements are the SQL of tool_effect. All times are clock_timestamp(), which is read
// again after an UPDATE has waited for a row. Where rows are spread it is read before the
// wait: a lease that begins early ends early, and what is due a moment ago is due still.
type statements struct {
	sequence                                                                         string
	claim, read, parked, open, due, take, hold, release, postpone, settleLater, park string
	done, refused, orphaned, audit, audited, twice, forget, forgetOne                string
	// settings are those of a transaction of our own that may wait for a claim, limit those
	// of a caller's; unlimit gives back the session's own lock_timeout.
	durable, accept          string
	settings, limit, unlimit []string
	// block: a claim needs a transaction block. forgetIn: what may be forgotten is deleted
	// scope by scope, of those that it lists.
	block    bool
	forgetIn string
	// known: the server has been asked what it is.
	known bool
	// verdict stores what a person says of an operation that has no answer, cleared of one that
	// happened twice.
	verdict, cleared said
}

// said is a statement with a line in the audit, and without.
type said struct{ audited, plain string }

// columns are those of a row, in the order of row.fields.
const columns = `e.scope, e.tool, e.key, e.state, e.fence, e.due_at, e.sent_at, e.sent_until, e.tries, e.looked,
       e.fingerprint, e.arg_digests, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       e.created_at, e.changed_at, e.forget_at`

// columnsOrNone are they where there may be no row: then its state is None.
const columnsOrNone = `COALESCE(e.scope, ''), COALESCE(e.tool, ''), COALESCE(e.key, ''), COALESCE(e.state, ''), COALESCE(e.fence, 0), e.due_at, e.sent_at, e.sent_until, COALESCE(e.tries, 0), COALESCE(e.looked, false),
       e.fingerprint, e.arg_digests, e.input, e.ref, e.note, e.twice, e.verdict, e.verdict_value,
       COALESCE(e.created_at, clock.t), COALESCE(e.changed_at, clock.t), e.forget_at`

const (
	now  = "pg_catalog.clock_timestamp()"
	isID = "e.scope = $1::text AND e.tool = $2::text AND e.key = $3::text"
	// isMine holds as long as nobody has acted since the row was read.
	isMine = isID + " AND e.fence = $4::bigint"
	// rowTimeout is how long a claim waits for one that is not committed. It is in flight
	// then, as a twin is.
	rowTimeout = table.RowTimeout
)

func newStatements(schema string, asyncCommit bool, profile table.Profile) *statements {
	effect := pgx.Identifier{schema, "tool_effect"}.Sanitize()
	record := pgx.Identifier{schema, "tool_dedup"}.Sanitize()
	sequence := fmt.Sprintf("pg_catalog.nextval('%s')", quote(pgx.Identifier{schema, "tool_effect_fence"}.Sanitize()))
	// A server that crashes must not forget what keeps an attempt from being made again.
	lasts := ""
	if !asyncCommit {
		lasts = "(pg_catalog.current_setting('synchronous_commit') <> 'off' OR pg_catalog.set_config('synchronous_commit', 'on', true) = 'on')"
	}
	clock, next, me, with, from, using := now, sequence, "session_user::text", "", "", ""
	if profile.Spread {
		// A change of a distributed row may call no volatile function: what they say is read
		// before it. Each node's sequence has a range of its own; a row's fence grows all the same.
		with = fmt.Sprintf("WITH clock AS MATERIALIZED (SELECT %s AS t, %s AS next, %s AS me, %s AS lasts) ", now, sequence, me, cmp.Or(lasts, "true"))
		clock, next, me, from, using = "clock.t", "GREATEST(clock.next, e.fence + 1)", "clock.me", " FROM clock", " USING clock"
		lasts = "clock.lasts"
	}
	if lasts != "" {
		lasts = " AND " + lasts
	}
	after := func(at, interval string) string {
		if profile.Spread { // nor a stable one of a column
			return "(" + at + " AT TIME ZONE 'UTC' + " + interval + ") AT TIME ZONE 'UTC'"
		}
		return at + " + " + interval
	}
	change := func(at, set, where string) string {
		return fmt.Sprintf("%sUPDATE %s AS e SET changed_at = %s, %s%s WHERE %s%s RETURNING %s, %s", with, effect, at, set, from, where, lasts, columns, clock)
	}
	update := func(set, where string) string { return change(clock, set, where) }
	// updateUnless leaves changed_at as it is where the condition holds: a parked row keeps the time
	// at which it was parked, and one with a verdict the time of that.
	updateUnless := func(kept, set, where string) string {
		return change("CASE WHEN "+kept+" THEN e.changed_at ELSE "+clock+" END", set, where)
	}
	recorded := fmt.Sprintf(`EXISTS (SELECT FROM %s AS r WHERE r.scope = $1::text AND r.tool = $2::text AND r.key = $3::text AND r.forget_at > %s)`, record, clock)
	insert := func(state, due, sent, until, tries, note, from string) string {
		return fmt.Sprintf(`INSERT INTO %s AS e (scope, tool, key, state, fence, due_at, sent_at, sent_until, tries, looked, fingerprint, arg_digests, input, note, created_at, changed_at)
    SELECT $1::text, $2::text, $3::text, '%s', %s, %s, %s, %s, %s, false, $4::bytea, $5::bytea, $6::text, %s, clock.t, clock.t
      FROM clock
     WHERE %s
    ON CONFLICT DO NOTHING
    RETURNING %s`, effect, state, sequence, due, sent, until, tries, note, from, columns)
	}
	// look reads record and row, and inserts a row where neither is there. One that is
	// inserted by somebody else meanwhile is seen by nobody here: then the answer has no row.
	// The row is read first. Where the two are not read at once, as on Citus, one that is done
	// has its record all the same.
	look := func(insert string) string {
		return fmt.Sprintf(`WITH clock AS MATERIALIZED (SELECT %[1]s AS t),
old AS (SELECT %[3]s FROM %[4]s AS e WHERE %[5]s),
rec AS (SELECT fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at FROM %[2]s WHERE scope = $1::text AND tool = $2::text AND key = $3::text),
new AS (%[6]s)
SELECT rec.fingerprint, rec.arg_digests, rec.outcome, rec.result, rec.created_at, rec.expires_at, rec.forget_at,
       COALESCE(e.mine, false), %[7]s, clock.t
  FROM clock
  LEFT JOIN rec ON true
  LEFT JOIN (SELECT *, false AS mine FROM old UNION ALL SELECT *, true FROM new) AS e ON true`, now, record, columns, effect, isID, insert, columnsOrNone)
	}
	const free = "NOT EXISTS (SELECT FROM old) AND NOT EXISTS (SELECT FROM rec WHERE rec.forget_at > clock.t)"
	durable := "NULL"
	if !asyncCommit {
		durable = "CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END"
	}
	limited := fmt.Sprintf("pg_catalog.set_config('tool_dedup.lock_timeout', pg_catalog.current_setting('lock_timeout'), true), pg_catalog.set_config('lock_timeout', '%s', true)", rowTimeout)
	s := &statements{
		sequence: pgx.Identifier{schema, "tool_effect_fence"}.Sanitize(),

		durable:  "SELECT " + durable,
		settings: []string{"SELECT " + limited + ", " + durable},
		limit:    []string{"SELECT " + limited},
		unlimit:  []string{"SELECT pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('tool_dedup.lock_timeout'), true)"},
		// $7: the lease, $8: what tells the claim from others.
		claim:  look(insert("running", "clock.t + $7::interval", "clock.t", "clock.t + $7::interval", "1", "$8::text", free)),
		accept: look(insert("pending", "clock.t", "NULL", "NULL", "0", "NULL", free)),
		read:   fmt.Sprintf("SELECT %s, %s FROM %s AS e WHERE %s", columns, now, effect, isID),
		parked: fmt.Sprintf(`SELECT %s, %s FROM %s AS e
 WHERE (e.state = 'parked' OR e.twice IS NOT NULL) AND (e.changed_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
 ORDER BY e.changed_at, e.scope, e.tool, e.key LIMIT $5::bigint`, columns, now, effect),
		// What is open is due at some time. It is sorted, since no index is by its age.
		open: fmt.Sprintf(`SELECT %s, %s FROM %s AS e
 WHERE e.due_at IS NOT NULL AND e.state IN ('pending', 'running') AND e.created_at <= %s AND (e.created_at, e.scope, e.tool, e.key) > ($1::timestamptz, $2::text, $3::text, $4::text)
 ORDER BY e.created_at, e.scope, e.tool, e.key LIMIT $5::bigint`, columns, now, effect, now+" - $6::interval"),
		due: fmt.Sprintf(`SELECT %s, %s FROM %s AS e WHERE e.tool = $1::text AND e.due_at <= %s ORDER BY e.due_at LIMIT $2::bigint`, columns, now, effect, now),

		// $5: an attempt follows, and no look. One at a parked operation is counted when it
		// has been made. $6: the lease. $7: the act goes on from a
		// look that found nothing, which holds the row. $8: until when it may be taken, NULL
		// where that is always. The provider counts its key from the first use, so that the
		// first attempt's time stays. An attempt carries out what was said before it.
		take: updateUnless("e.state = 'parked' OR e.verdict IS NOT NULL AND NOT $5::bool", fmt.Sprintf(`state = CASE WHEN $5::bool THEN 'running' ELSE e.state END, fence = %[1]s, due_at = %[3]s, tries = CASE WHEN e.state = 'parked' AND NOT $5::bool THEN e.tries ELSE e.tries + 1 END,
  sent_at = CASE WHEN $5::bool THEN COALESCE(e.sent_at, %[2]s) ELSE e.sent_at END,
  sent_until = CASE WHEN $5::bool THEN %[3]s ELSE e.sent_until END, looked = e.looked OR $7::bool,
  verdict = CASE WHEN $5::bool THEN NULL ELSE e.verdict END, verdict_value = CASE WHEN $5::bool THEN NULL ELSE e.verdict_value END`, next, clock, after(clock, "$6::interval")),
			isMine+` AND e.state <> 'done' AND ($7::bool OR e.due_at <= `+clock+`) AND ($8::timestamptz IS NULL OR `+clock+` < $8::timestamptz) AND NOT `+recorded),
		// $5: the lease, of an attempt that is on its way.
		hold: update("due_at = "+after(clock, "$5::interval")+", sent_until = "+after(clock, "$5::interval")+"", isMine+" AND e.state = 'running'"),
		// $5: the pause, $6: the note. The key was used, perhaps: when it first was stays.
		release: update("state = 'pending', fence = "+next+", sent_until = NULL, due_at = "+after(clock, "$5::interval")+", note = $6::text", isMine+" AND e.state = 'running'"),
		// $7: the attempt has ended, and its outcome is not known. The note of a verdict says who has given it.
		postpone: updateUnless("e.verdict IS NOT NULL", "fence = "+next+", due_at = "+after(clock, "$5::interval")+", note = CASE WHEN e.verdict IS NULL THEN $6::text ELSE e.note END, sent_until = CASE WHEN $7::bool THEN "+clock+" ELSE e.sent_until END", isMine),
		// $5: how long it takes to settle, since $6, or since the last attempt has ended.
		settleLater: update("fence = "+next+", due_at = "+after("COALESCE($6::timestamptz, e.sent_until)", "$5::interval")+", sent_until = COALESCE($6::timestamptz, e.sent_until)", isMine+" AND e.state = 'running'"),
		// $5: until the next look, $6: the note, $7: the ref, $8 and $9: a verdict to be carried out then, $10: the tries.
		park: updateUnless("e.state = 'parked'", "state = 'parked', fence = "+next+", due_at = "+after(clock, "$5::interval")+", note = $6::text, ref = COALESCE(e.ref, $7::text), twice = "+further("$7::text")+", verdict = $8::text, verdict_value = $9::text, tries = $10::int",
			isMine+" AND e.state <> 'done'"),

		// $4: the row's life, $5: the ref, $6: until the audit, $7: how long the record is remembered,
		// $8: the fence of a verdict, NULL for what is known to have happened.
		done: update("state = 'done', fence = "+next+", ref = $5::text, twice = "+plus(without("$5::text"), "NULLIF(e.ref, $5::text)")+", due_at = CASE WHEN e.looked THEN "+after(clock, "$6::interval")+" END, input = CASE WHEN e.looked THEN e.input END, verdict = NULL, verdict_value = NULL, tries = 0, forget_at = "+after(clock, "$7::interval + interval '1 day'")+"",
			isID+" AND e.created_at = $4::timestamptz AND e.state <> 'done' AND ($8::bigint IS NULL OR e.fence = $8::bigint)"),
		// $5: until the audit, $6: how long the record is remembered, $7: a look found nothing
		// just now.
		refused: update("state = 'done', ref = NULL, twice = "+plus("e.twice", "e.ref")+", looked = e.looked OR $7::bool, due_at = CASE WHEN e.looked OR $7::bool THEN "+after(clock, "$5::interval")+" END, input = CASE WHEN e.looked OR $7::bool THEN e.input END, verdict = NULL, verdict_value = NULL, tries = 0, forget_at = "+after(clock, "$6::interval + interval '1 day'")+"",
			isMine+" AND e.state <> 'done'"),
		// A record that somebody else has written is the answer all the same.
		orphaned: update("state = 'done', due_at = NULL, input = NULL, forget_at = "+after(clock, "$5::interval + interval '1 day'")+"", isMine+" AND e.state <> 'done' AND "+recorded),
		// $5: the lease, of a look after the answer.
		audit:   update("fence = "+next+", due_at = "+after(clock, "$5::interval")+", tries = e.tries + 1", isMine+" AND e.state = 'done' AND e.due_at <= "+clock),
		audited: update("due_at = "+after(clock, "$5::interval")+", input = CASE WHEN $5::interval IS NOT NULL THEN e.input END", isMine+" AND e.state = 'done'"),
		// $5: the ref of an effect beside the answer, or before there is one.
		twice: update("ref = CASE WHEN e.state = 'done' THEN e.ref ELSE COALESCE(e.ref, $5::text) END, twice = CASE WHEN e.state = 'done' THEN "+plus("e.twice", "$5::text")+" ELSE "+further("$5::text")+" END",
			isID+" AND e.created_at = $4::timestamptz AND e.ref IS DISTINCT FROM $5::text AND NOT "+among("e.twice", "$5::text")),

		forget:    fmt.Sprintf(`DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE forget_at <= %[2]s AND due_at IS NULL LIMIT 1000 FOR UPDATE SKIP LOCKED))`, effect, now),
		forgetOne: fmt.Sprintf(`%sDELETE FROM %s AS e%s WHERE %s AND e.state = 'done' AND e.due_at IS NULL AND e.forget_at <= %s AND NOT %s`, with, effect, using, isMine, after(clock, "interval '1 day'"), recorded),
	}
	// $5: the reason, $6: the verdict, $7: its value, $8: who says so, $9: whether a verdict that is not
	// carried out is overruled. An attempt that has ended sends nothing more: then a row that is
	// running may be decided as one that is parked.
	s.verdict.plain = update(`state = CASE WHEN $6::text = 'never' THEN 'pending' WHEN e.state = 'running' THEN 'parked' ELSE e.state END, fence = `+next+`, due_at = `+clock+`,
  sent_until = CASE WHEN $6::text <> 'never' THEN e.sent_until END, looked = e.looked OR $6::text <> 'happened' AND e.sent_until IS NOT NULL, tries = CASE WHEN $6::text = 'never' THEN 0 ELSE e.tries END,
  verdict = $6::text, verdict_value = $7::text, note = COALESCE(NULLIF($8::text, ''), `+me+`) || ': ' || $5::text`,
		isMine+" AND (e.state IN ('pending', 'parked') OR e.state = 'running' AND e.sent_until <= "+clock+") AND ($9::bool OR e.verdict IS NULL)")
	// $10: the state before it, $11: the reason, and what it overrules.
	s.verdict.audited = "WITH changed AS (" + s.verdict.plain + "), audited AS (" +
		table.AuditInsert(schema, "changed", "$8::text", "$6::text", "$10::text", "$11::text") + ") SELECT * FROM changed"
	// $5: the reason, $6: the further effects that were taken back, $7: who says so, $8: the state before it.
	s.cleared.plain = update("twice = NULL, note = $5::text", isMine+" AND e.state = 'done' AND e.twice = $6::text")
	s.cleared.audited = "WITH changed AS (" + s.cleared.plain + "), audited AS (" +
		table.AuditInsert(schema, "changed", "$7::text", "'cleared'", "$8::text", "$5::text") + ") SELECT * FROM changed"
	if profile.Spread {
		s.block = true
		s.limit, s.unlimit = table.LimitSpread(rowTimeout)
		s.settings = append([]string{s.durable}, s.limit...)
		const due = "forget_at <= pg_catalog.statement_timestamp() AND due_at IS NULL LIMIT 1000"
		s.forgetIn = fmt.Sprintf(`SELECT DISTINCT scope FROM %s WHERE %s`, effect, due)
		s.forget = fmt.Sprintf(`DELETE FROM %[1]s WHERE scope = $1::text AND ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE scope = $1::text AND %[2]s FOR UPDATE SKIP LOCKED))`, effect, due)
	}
	return s
}

// among holds where a ref is one of several.
func among(refs, ref string) string {
	return "position(' ' || " + ref + " || ' ' IN ' ' || COALESCE(" + refs + ", '') || ' ') > 0"
}

// plus are refs with one more, where that is not NULL and not among them.
func plus(refs, ref string) string {
	return "CASE WHEN " + among(refs, ref) + " THEN " + refs + " ELSE COALESCE(" + refs + " || ' ' || " + ref + ", " + ref + ", " + refs + ") END"
}

// without are the refs of further effects without one, which is the answer's now.
func without(ref string) string {
	return "NULLIF(btrim(replace(' ' || e.twice || ' ', ' ' || " + ref + " || ' ', ' ')), '')"
}

// further are the refs of further effects, when one may be another than the row's.
func further(ref string) string {
	return plus("e.twice", "CASE WHEN e.ref <> "+ref+" THEN "+ref+" END")
}

func quote(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] == '\'' {
			out = append(out, '\'')
		}
		out = append(out, s[i])
	}
	return string(out)
}
