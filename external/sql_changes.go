package external

// changes are what acts do to an operation.
func (s *statements) changes(text func(string) string) {
	// $5: an attempt follows, and no look. One at a parked operation is counted when it has been made. $6: the lease.
	// $7: the act goes on from a look that found nothing, which holds the row. $8: until when it may be taken, NULL
	// where that is always. The provider counts its key from the first use, so that the first attempt's time stays.
	// An attempt carries out what was said before it. $9 and $10: the attempt has no key, and the tool no Find.
	s.take = text(changingUnless("e.state = 'parked' OR e.verdict IS NOT NULL AND NOT $5::bool",
		`{mine} AND e.state <> 'done' AND ($7::bool OR e.due_at <= clock.t)
   AND ($8::timestamptz IS NULL OR clock.t < $8::timestamptz) AND NOT {recorded}`,
		`state = CASE WHEN $5::bool THEN 'running' ELSE e.state END, fence = {next}, due_at = {in $6},
       tries = CASE WHEN e.state = 'parked' AND NOT $5::bool THEN e.tries ELSE e.tries + 1 END,
       sent_at = CASE WHEN $5::bool THEN COALESCE(e.sent_at, clock.t) ELSE e.sent_at END,
       sent_until = CASE WHEN $5::bool THEN {in $6} ELSE e.sent_until END, looked = e.looked OR $7::bool,
       keyless = e.keyless OR $5::bool AND $9::bool, unmarked = e.unmarked OR $5::bool AND $10::bool,
       verdict = CASE WHEN $5::bool THEN NULL ELSE e.verdict END,
       verdict_value = CASE WHEN $5::bool THEN NULL ELSE e.verdict_value END`))
	// $5: the lease, of an attempt that is on its way.
	s.hold = text(changing("{mine} AND e.state = 'running'", "due_at = {in $5}, sent_until = {in $5}"))
	// $5: the lease, of a look that follows an attempt which has ended: the provider has an effect of the key.
	s.exists = text(changing("{mine} AND e.state = 'running'", "confirmed = true, due_at = {in $5}, sent_until = clock.t"))
	// $5: the pause, $6: the note. The key was used, perhaps: when it first was stays.
	s.release = text(changing("{mine} AND e.state = 'running'",
		`state = 'pending', fence = {next}, sent_until = NULL, keyless = false, unmarked = false, confirmed = false,
       due_at = {in $5}, note = $6::text`))
	// $5: the pause, $6: the note, $7: the attempt has ended, and its outcome is not known. The note of a verdict says
	// who has given it.
	s.postpone = text(changingUnless("e.verdict IS NOT NULL", "{mine}", `fence = {next}, due_at = {in $5},
       note = CASE WHEN e.verdict IS NULL THEN $6::text ELSE e.note END,
       sent_until = CASE WHEN $7::bool THEN clock.t ELSE e.sent_until END`))
	// $5: how long it takes to settle, since $6, or since the last attempt has ended.
	s.settleLater = text(changing("{mine} AND e.state = 'running'", `fence = {next}, sent_until = COALESCE($6::timestamptz, e.sent_until),
       due_at = (COALESCE($6::timestamptz, e.sent_until) AT TIME ZONE 'UTC' + $5::interval) AT TIME ZONE 'UTC'`))
	// $5: until the next look, $6: the note, $7: the ref, $8 and $9: a verdict to be carried out then, $10: the tries.
	s.park = text(changingUnless("e.state = 'parked'", "{mine} AND e.state <> 'done'",
		`state = 'parked', fence = {next}, due_at = {in $5}, note = $6::text, tries = $10::int,
       ref = COALESCE(e.ref, $7::text), twice = `+further("$7::text")+`,
       verdict = $8::text, verdict_value = $9::text`))

	// $4: the row's life, $5: the ref, $6: until the audit, $7: how long the record is remembered, $8: the fence of a
	// verdict, NULL for what is known to have happened.
	s.done = text(changing(`{id} AND e.created_at = $4::timestamptz AND e.state <> 'done'
   AND ($8::bigint IS NULL OR e.fence = $8::bigint)`,
		`state = 'done', fence = {next}, ref = $5::text,
       twice = `+plus(without("$5::text"), "NULLIF(e.ref, $5::text)")+`,
       due_at = CASE WHEN e.looked THEN {in $6} END, input = CASE WHEN e.looked THEN e.input END,
       verdict = NULL, verdict_value = NULL, tries = 0, forget_at = {a day after $7}`))
	// $5: until the audit, $6: how long the record is remembered, $7: a look found nothing just now.
	s.refused = text(changing("{mine} AND e.state <> 'done'", `state = 'done', ref = NULL,
       twice = `+plus("e.twice", "e.ref")+`, looked = e.looked OR $7::bool,
       due_at = CASE WHEN e.looked OR $7::bool THEN {in $5} END,
       input = CASE WHEN e.looked OR $7::bool THEN e.input END,
       verdict = NULL, verdict_value = NULL, tries = 0, forget_at = {a day after $6}`))
	// $5: how long the record is remembered. A record that somebody else has written is the answer all the same, and
	// what is known to have happened is an effect beside it.
	s.orphaned = text(changing("{mine} AND e.state <> 'done' AND {recorded}",
		"state = 'done', ref = NULL, twice = "+plus("e.twice", "e.ref")+", due_at = NULL, input = NULL, forget_at = {a day after $5}"))
	// $4: the row's life, $5: the ref of an effect beside the answer, or before there is one.
	s.twice = text(changing(`{id} AND e.created_at = $4::timestamptz AND e.ref IS DISTINCT FROM $5::text
   AND NOT `+among("e.twice", "$5::text"),
		`ref = CASE WHEN e.state = 'done' THEN e.ref ELSE COALESCE(e.ref, $5::text) END,
       twice = CASE WHEN e.state = 'done' THEN `+plus("e.twice", "$5::text")+` ELSE `+further("$5::text")+` END`))
	// $5: the lease, of a look after the answer.
	s.audit = text(changing("{mine} AND e.state = 'done' AND e.due_at <= clock.t",
		"fence = {next}, due_at = {in $5}, tries = e.tries + 1"))
	// $5: until the next look, NULL where there is none.
	s.audited = text(changing("{mine} AND e.state = 'done'",
		"due_at = {in $5}, input = CASE WHEN $5::interval IS NOT NULL THEN e.input END"))
}

// verdicts are what a person says.
func (s *statements) verdicts(schema string, text func(string) string) {
	// $5: the reason, $6: the verdict, $7: its value, $8: who says so, $9: whether a verdict that is not carried out is
	// overruled, $10: the state before it, $11: the reason, and what it overrules. An attempt that has ended sends
	// nothing more: then a row that is running may be decided as one that is parked.
	s.verdict = audited(schema, text(changing(
		`{mine} AND (e.state IN ('pending', 'parked') OR e.state = 'running' AND e.sent_until <= clock.t)
   AND ($9::bool OR e.verdict IS NULL)`,
		`state = CASE WHEN $6::text = 'never' THEN 'pending' WHEN e.state = 'running' THEN 'parked' ELSE e.state END,
       fence = {next}, due_at = clock.t, sent_until = CASE WHEN $6::text <> 'never' THEN e.sent_until END,
       keyless = e.keyless AND $6::text <> 'never', unmarked = e.unmarked AND $6::text <> 'never',
       confirmed = e.confirmed AND $6::text <> 'never',
       looked = e.looked OR $6::text <> 'happened' AND e.sent_until IS NOT NULL,
       tries = CASE WHEN $6::text = 'never' THEN 0 ELSE e.tries END, verdict = $6::text, verdict_value = $7::text,
       note = COALESCE(NULLIF($8::text, ''), clock.me) || ': ' || $5::text`)), "$8::text", "$6::text", "$10::text", "$11::text")
	// $5: the reason, $6: the further effects that were taken back, $7: who says so, $8: the state before it.
	s.cleared = audited(schema, text(changing("{mine} AND e.state = 'done' AND e.twice = $6::text",
		"twice = NULL, note = $5::text")), "$7::text", "'cleared'", "$8::text", "$5::text")
}
