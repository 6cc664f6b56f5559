package external

import "github.com/tooldedup/dedup/internal/table"

// changes sets the statements by which acts change an operation.
func (s *statements) changes(text func(string) string) {
	// $5: true for an attempt, false for a look-up. $6: the lease. $7: the attempt follows a
	// look-up of the same act, which holds the row. $8: the latest time at which the row may be
	// taken, NULL for no limit. $9: keyless, $10: unmarked.
	//
	// A look-up of a parked row is counted when it has been made. sent_at stays at the first
	// attempt, because the provider counts a key's life from its first use. An attempt carries out
	// the verdict Never, so it clears the verdict.
	s.take = text(updateKeepingTime("e.state = 'parked' OR e.verdict IS NOT NULL AND NOT $5::bool",
		`{unchanged} AND e.state <> 'done' AND ($7::bool OR e.due_at <= clock.t)
   AND ($8::timestamptz IS NULL OR clock.t < $8::timestamptz) AND NOT {recorded}`,
		`state = CASE WHEN $5::bool THEN 'running' ELSE e.state END, fence = {next}, due_at = {in $6},
       tries = CASE WHEN e.state = 'parked' AND NOT $5::bool THEN e.tries ELSE e.tries + 1 END,
       sent_at = CASE WHEN $5::bool THEN COALESCE(e.sent_at, clock.t) ELSE e.sent_at END,
       sent_until = CASE WHEN $5::bool THEN {in $6} ELSE e.sent_until END, looked = e.looked OR $7::bool,
       keyless = e.keyless OR $5::bool AND $9::bool, unmarked = e.unmarked OR $5::bool AND $10::bool,
       verdict = CASE WHEN $5::bool THEN NULL ELSE e.verdict END,
       verdict_value = CASE WHEN $5::bool THEN NULL ELSE e.verdict_value END`))
	// $5: the lease of a running attempt.
	s.hold = text(update("{unchanged} AND e.state = 'running'", "due_at = {in $5}, sent_until = {in $5}"))
	// $5: the lease of the look-up that follows an ended attempt. The provider said that it has an
	// effect of the key.
	s.exists = text(update("{unchanged} AND e.state = 'running'", "confirmed = true, due_at = {in $5}, sent_until = clock.t"))
	// $5: the pause, $6: the note. sent_at stays, because the key may have been used.
	s.release = text(update("{unchanged} AND e.state = 'running'",
		`state = 'pending', fence = {next}, sent_until = NULL, keyless = false, unmarked = false, confirmed = false,
       due_at = {in $5}, note = $6::text`))
	// $5: the pause, $6: the note, $7: an attempt has ended and its outcome is unknown. The note of
	// a verdict has its actor and reason, so it stays.
	s.postpone = text(updateKeepingTime("e.verdict IS NOT NULL", "{unchanged}", `fence = {next}, due_at = {in $5},
       note = CASE WHEN e.verdict IS NULL THEN $6::text ELSE e.note END,
       sent_until = CASE WHEN $7::bool THEN clock.t ELSE e.sent_until END`))
	// $5: Settles, $6: since when, NULL for the end of the last attempt.
	s.settleLater = text(update("{unchanged} AND e.state = 'running'", `fence = {next}, sent_until = COALESCE($6::timestamptz, e.sent_until),
       due_at = (COALESCE($6::timestamptz, e.sent_until) AT TIME ZONE 'UTC' + $5::interval) AT TIME ZONE 'UTC'`))
	// $5: the pause before the next look-up, $6: the note, $7: the ref, $8 and $9: a verdict to
	// carry out then, $10: the tries. A parked row's first verdict changes its time.
	parked := `state = 'parked', fence = {next}, due_at = {in $5}, note = $6::text, tries = $10::int,
       ref = COALESCE(e.ref, $7::text), twice = ` + withFurther("$7::text") + `,
       verdict = $8::text, verdict_value = $9::text`
	s.park = text(updateKeepingTime("e.state = 'parked' AND (e.verdict IS NOT NULL OR $8::text IS NULL)",
		"{unchanged} AND e.state <> 'done'", parked))
	// As park, but $4 is the row's created_at: the verdict is the success of an attempt. The row
	// has it already if the reply of an earlier try was lost.
	s.keep = text(update(`{id} AND e.created_at = $4::timestamptz AND e.state <> 'done'
   AND (e.verdict IS DISTINCT FROM 'happened' OR e.verdict_value = $9::text)`, parked))

	// $4: the row's created_at, $5: the ref, $6: the pause before the recheck, $7: the record's
	// life, $8: the fence of the verdict that is recorded, NULL for an effect that is known to have
	// happened.
	s.done = text(update(`{id} AND e.created_at = $4::timestamptz AND e.state <> 'done'
   AND ($8::bigint IS NULL OR e.fence = $8::bigint)`,
		`state = 'done', fence = {next}, ref = $5::text,
       twice = `+withRef(withoutRef("$5::text"), "NULLIF(e.ref, $5::text)")+`,
       due_at = CASE WHEN e.looked THEN {in $6} END, input = CASE WHEN e.looked THEN e.input END,
       verdict = NULL, verdict_value = NULL, tries = 0, forget_at = {a day after $7}`))
	// $5: the pause before the recheck, $6: the record's life, $7: a look-up has just found nothing.
	s.refused = text(update("{unchanged} AND e.state <> 'done'", `state = 'done', ref = NULL,
       twice = `+withRef("e.twice", "e.ref")+`, looked = e.looked OR $7::bool,
       due_at = CASE WHEN e.looked OR $7::bool THEN {in $5} END,
       input = CASE WHEN e.looked OR $7::bool THEN e.input END,
       verdict = NULL, verdict_value = NULL, tries = 0, forget_at = {a day after $6}`))
	// $5: the record's life. The existing record is the answer. The row's ref, if any, is a further
	// effect.
	s.orphaned = text(update("{unchanged} AND e.state <> 'done' AND {recorded}",
		"state = 'done', ref = NULL, twice = "+withRef("e.twice", "e.ref")+", due_at = NULL, input = NULL, forget_at = {a day after $5}"))
	// $4: the row's created_at, $5: the ref of an effect that was found. It may be found before
	// there is an answer. An erased row has no ref to compare with.
	s.twice = text(update(`{id} AND e.created_at = $4::timestamptz AND e.ref IS DISTINCT FROM $5::text
   AND e.fingerprint <> `+table.Erased+` AND NOT `+hasRef("e.twice", "$5::text"),
		`ref = CASE WHEN e.state = 'done' THEN e.ref ELSE COALESCE(e.ref, $5::text) END,
       twice = CASE WHEN e.state = 'done' THEN `+withRef("e.twice", "$5::text")+` ELSE `+withFurther("$5::text")+` END`))
	// $5: the lease of the recheck.
	s.recheck = text(update("{unchanged} AND e.state = 'done' AND e.due_at <= clock.t",
		"fence = {next}, due_at = {in $5}, tries = e.tries + 1"))
	// $5: the pause before another recheck, NULL for none.
	s.rechecked = text(update("{unchanged} AND e.state = 'done'",
		"due_at = {in $5}, input = CASE WHEN $5::interval IS NOT NULL THEN e.input END"))
}

// verdicts sets the statements that store an operator's verdict.
func (s *statements) verdicts(schema string, text func(string) string) {
	// $5: the reason, $6: the verdict, $7: its value, $8: the actor, $9: overrule a verdict that is
	// not carried out, $10: the state before, $11: the reason for the audit. A running row may be
	// decided once its last attempt sends nothing more.
	s.verdict = audited(schema, text(update(
		`{unchanged} AND (e.state IN ('pending', 'parked') OR e.state = 'running' AND e.sent_until <= clock.t)
   AND ($9::bool OR e.verdict IS NULL)`,
		`state = CASE WHEN $6::text = 'never' THEN 'pending' WHEN e.state = 'running' THEN 'parked' ELSE e.state END,
       fence = {next}, due_at = clock.t, sent_until = CASE WHEN $6::text <> 'never' THEN e.sent_until END,
       keyless = e.keyless AND $6::text <> 'never', unmarked = e.unmarked AND $6::text <> 'never',
       confirmed = e.confirmed AND $6::text <> 'never',
       looked = e.looked OR $6::text <> 'happened' AND e.sent_until IS NOT NULL,
       tries = 0, verdict = $6::text, verdict_value = $7::text,
       note = COALESCE(NULLIF($8::text, ''), clock.me) || ': ' || $5::text`)), "$8::text", "$6::text", "$10::text", "$11::text")
	// $5: the reason, $6: the further effects that were taken back, $7: the actor, $8: the state
	// before.
	s.cleared = audited(schema, text(update("{unchanged} AND e.state = 'done' AND e.twice = $6::text",
		"twice = NULL, note = $5::text")), "$7::text", "'cleared'", "$8::text", "$5::text")
}
