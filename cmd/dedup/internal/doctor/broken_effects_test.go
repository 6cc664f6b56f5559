package doctor_test

// effectScenarios are effects outside of the database that wait for somebody.
func effectScenarios() []scenario {
	const insert = `INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at, due_at, forget_at, twice)
		SELECT 'acme', 'pay', 'k' || n, `
	return []scenario{
		{
			name: "EffectsParked", sql: insert + `'parked', n, 0, false, '', now(), now() - interval '25 hours', NULL, NULL, NULL FROM generate_series(1, 3) n`,
			warnings: []string{"effects_parked"}, evidence: "3 parked, the oldest since ",
		},
		{
			name: "ManyEffectsParked", sql: insert + `'parked', n, 0, false, '', now(), now() - interval '25 hours', NULL, NULL, NULL FROM generate_series(1, 1001) n`,
			warnings: []string{"effects_parked"}, evidence: "1000 or more parked, the oldest since ",
		},
		{
			name: "EffectsParkedSinceAnHourAreFine", sql: insert + `'parked', n, 0, false, '', now(), now() - interval '1 hour', NULL, NULL, NULL FROM generate_series(1, 3) n`,
			evidence: "3 parked, 0 due, 0 to be forgotten",
		},
		{
			name: "EffectsTwice", sql: insert + `'done', n, 0, false, '', now(), now(), NULL, now() + interval '1 day', 'ch_2' FROM generate_series(1, 2) n`,
			warnings: []string{"effects_twice"}, evidence: "2 listed as twice, the oldest since ",
		},
		{
			name: "EffectsDue", sql: insert + `'pending', n, 0, false, '', now(), now(), now() - interval '2 hours', NULL, NULL FROM generate_series(1, 2) n`,
			warnings: []string{"effects_due"}, evidence: `, of the tools ["pay"]`,
		},
		{
			name: "EffectsOpen", sql: insert + `'running', n, 0, false, '', now() - interval '25 hours', now(), now() + interval '2 minutes', NULL, NULL FROM generate_series(1, 2) n`,
			warnings: []string{"effects_open"}, evidence: "2 open, the oldest since ",
		},
		{
			name: "EffectsDueForMinutesAreFine", sql: insert + `'running', n, 0, false, '', now(), now(), now() - interval '2 minutes', NULL, NULL FROM generate_series(1, 2) n`,
			evidence: "0 parked, 2 due, 0 to be forgotten",
		},
		{
			name: "EffectsDueLaterAreFine", sql: insert + `'running', n, 0, false, '', now(), now(), now() + interval '2 minutes', NULL, NULL FROM generate_series(1, 2) n`,
			evidence: "0 parked, 0 due, 0 to be forgotten",
		},
		{
			name: "EffectsSweepBehind", sql: insert + `'done', n, 0, false, '', now(), now(), NULL, now() - interval '2 hours', NULL FROM generate_series(1, 2) n`,
			warnings: []string{"effects_sweep_behind"}, evidence: "2 to be forgotten, the oldest since ",
		},
		{
			name: "EffectsThatStillWaitForALookAreKept", sql: insert + `'done', n, 0, false, '', now(), now(), now() + interval '1 hour', now() - interval '2 hours', NULL FROM generate_series(1, 2) n`,
			evidence: "0 parked, 0 due, 0 to be forgotten",
		},
		{
			name: "EffectsThatTheRoleMayNotRead", asRole: true, sql: insert + `'parked', n, 0, false, '', now(), now() - interval '25 hours', NULL, NULL, NULL FROM generate_series(1, 3) n`,
			evidence: "no table tool_effect that this role may read",
		},
		{
			name: "EffectsThatTheRoleMayRead", asRole: true, sql: insert + `'parked', n, 0, false, '', now(), now() - interval '25 hours', NULL, NULL, NULL FROM generate_series(1, 3) n; GRANT SELECT ON tool_effect TO %role%`,
			warnings: []string{"effects_parked"},
		},
	}
}
