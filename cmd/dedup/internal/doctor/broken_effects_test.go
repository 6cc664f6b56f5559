package doctor_test

// effectScenarios have effects outside the database that are due, and no process that acts.
func effectScenarios() []scenario {
	const insert = `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, due_at, forget_at)
		SELECT 'acme', 'pay', 'k' || n, `
	due := func(n, due string) string {
		return insert + `'running', n, 0, false, '', now(), now(), ` + due + `, NULL FROM generate_series(1, ` + n + `) n`
	}
	forget := func(due string) string {
		return insert + `'done', n, 0, false, '', now(), now(), ` + due + `, now() - interval '2 hours' FROM generate_series(1, 2) n`
	}
	return []scenario{
		{
			name: "EffectsDue", sql: due("2", "now() - interval '2 hours'"),
			warnings: []string{"effects_due"}, evidence: "2 are due, the oldest since ",
		},
		{
			name: "ManyEffectsDue", sql: due("1001", "now() - interval '2 hours'"),
			warnings: []string{"effects_due"}, evidence: "1000 or more are due, the oldest since ",
		},
		{name: "EffectsDueForMinutesAreFine", sql: due("2", "now() - interval '2 minutes'"), evidence: "2 are due, the oldest since "},
		{name: "EffectsDueLaterAreFine", sql: due("2", "now() + interval '2 minutes'"), evidence: "nothing is due"},
		{
			name: "EffectsSweepBehind", sql: forget("NULL"),
			warnings: []string{"effects_sweep_behind"}, evidence: "2 are due, the oldest since ",
		},
		{name: "EffectsThatStillWaitForALookAreKept", sql: forget("now() + interval '1 hour'"), evidence: "nothing is due"},
		{
			name: "EffectsThatTheRoleMayNotRead", asRole: true, sql: due("2", "now() - interval '2 hours'") + `; REVOKE ALL ON tool_effect FROM %role%`,
			errors: []string{"effect_broken"}, evidence: "no table tool_effect that this role may read",
		},
		{
			name: "EffectsThatTheRoleMayRead", asRole: true, sql: due("2", "now() - interval '2 hours'"),
			warnings: []string{"effects_due"},
		},
	}
}
