package doctor_test

import "testing"

// settingScenarios are settings of a server that records cannot rely on.
func settingScenarios() []scenario {
	set := func(name, value string) func(*testing.T) place {
		return func(t *testing.T) place {
			server := private(t, map[string]string{name: value})
			return place{url: server.URL, owner: server.URL}
		}
	}
	return []scenario{
		{name: "SoundServer", place: set("fsync", "on"), evidence: "fsync = on, set on the server's command line"},
		{name: "FsyncOff", place: set("fsync", "off"), errors: []string{"fsync_off"}, evidence: "fsync = off"},
		{name: "FullPageWritesOff", place: set("full_page_writes", "off"), errors: []string{"full_page_writes_off"}, evidence: "full_page_writes = off"},
		{
			name: "ZeroDamagedPages", sql: `ALTER DATABASE %database% SET zero_damaged_pages = on`,
			errors: []string{"zero_damaged_pages_on"}, evidence: "zero_damaged_pages = on, set for database ",
		},
		{name: "ZeroDamagedPagesOffInShort", sql: `ALTER DATABASE %database% SET zero_damaged_pages = 'f'`},
		{
			name: "ZeroDamagedPagesInTheConfiguration",
			place: func(t *testing.T) place {
				server := private(t, nil)
				configure(t, server.URL, "zero_damaged_pages", "'on'")
				return place{url: server.URL, owner: server.URL}
			},
			errors: []string{"zero_damaged_pages_on"}, evidence: "zero_damaged_pages = on, set in the server's configuration",
		},
		{
			name: "IgnoreChecksumFailure", sql: `ALTER DATABASE %database% SET ignore_checksum_failure = on`,
			errors: []string{"ignore_checksum_failure_on"}, evidence: "ignore_checksum_failure = on, set for database ",
		},
		{
			name: "SynchronousCommitOffForTheServer", place: set("synchronous_commit", "off"),
			warnings: []string{"synchronous_commit_off"}, evidence: "synchronous_commit = off, set on the server's command line",
		},
		{name: "AutovacuumOffForTheServer", place: set("autovacuum", "off"), warnings: []string{"autovacuum_off"}, evidence: "autovacuum = off"},
	}
}

// upkeepScenarios have tables without sweeps or vacuum.
func upkeepScenarios() []scenario {
	const (
		// Autovacuum would look after it in the middle of the test.
		alone = `ALTER TABLE tool_dedup SET (autovacuum_enabled = off);`
		fill  = `INSERT INTO tool_dedup
			SELECT 'acme', 'create_ticket', n || repeat('k', 150), sha256('x'), NULL, 'done', '{}', now(), now() + interval '1 day', now() + interval '1 day'
			  FROM generate_series(1, `
	)
	due := func(ago string) string {
		return `INSERT INTO tool_dedup
			SELECT 'acme', 'create_ticket', 'k' || n, sha256('x'), NULL, 'done', '{}', now(), now() - interval '` + ago + `', now() + interval '1 day'
			  FROM generate_series(1, 3) n`
	}
	return []scenario{
		{name: "SweepBehind", sql: due("2 hours"), warnings: []string{"sweep_behind"}, evidence: "3 are due, the oldest since "},
		{name: "SweepOnTimeIsFine", sql: due("2 minutes"), evidence: "3 are due, the oldest since "},
		{
			name: "SweepOfTombstonesBehind", sql: due("2 hours") + `; UPDATE tool_dedup SET result = NULL, forget_at = now() - interval '3 hours'`,
			warnings: []string{"sweep_behind"}, evidence: "(3 h",
		},
		{name: "TombstonesThatWaitAreFine", sql: due("2 hours") + `; UPDATE tool_dedup SET result = NULL`, evidence: "nothing is due"},
		{
			name: "AutovacuumOffForTheTable", sql: alone,
			warnings: []string{"autovacuum_off"}, evidence: "autovacuum_enabled = off for public.tool_dedup",
		},
		{
			name:     "DeadRows",
			sql:      alone + fill + `20000) n; DELETE FROM tool_dedup WHERE key < '5'; ANALYZE tool_dedup`,
			warnings: []string{"autovacuum_off", "dead_rows"}, evidence: "last vacuum never",
		},
		{
			name: "IndexBloat",
			place: func(t *testing.T) place {
				server := private(t, map[string]string{"autovacuum_naptime": "1d"})
				exec(t, server.URL, fill+`80000) n`)
				exec(t, server.URL, `DELETE FROM tool_dedup WHERE key > '2'`)
				exec(t, server.URL, `VACUUM (ANALYZE) tool_dedup`)
				return place{url: server.URL, owner: server.URL}
			},
			warnings: []string{"index_bloat"},
		},
		{
			name: "FullIndexIsFine",
			sql:  fill + `80000) n; ANALYZE tool_dedup`,
		},
		{
			name:     "IndexWithoutStatistics",
			sql:      alone + fill + `80000) n`,
			warnings: []string{"autovacuum_off"}, unknown: []string{"vacuum"},
			evidence: "there are no statistics of the table that this role may read",
		},
	}
}
