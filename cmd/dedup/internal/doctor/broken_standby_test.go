package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// follow starts a standby named second, and returns once it streams.
func follow(t *testing.T, primary *pgserver.Server) *pgserver.Server {
	t.Helper()
	standby, err := primary.StartStandby(t.Context(), "second", &pgserver.Options{Settings: map[string]string{"fsync": "on", "full_page_writes": "on"}})
	if errors.Is(err, pgserver.ErrNoBaseBackup) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop(context.WithoutCancel(t.Context()))) })
	await(t, primary.URL, "SELECT state = 'streaming' FROM pg_stat_replication")
	return standby
}

// standbyScenarios are real primaries and standbys.
func standbyScenarios() []scenario {
	// at is a primary that waits for names. With a state its standby replicates so.
	at := func(names, state string, url func(t *testing.T, primary, standby *pgserver.Server) string) func(*testing.T) place {
		return func(t *testing.T) place {
			primary := private(t, nil)
			p := place{url: primary.URL, owner: primary.URL}
			var standby *pgserver.Server
			if state != "" {
				standby = follow(t, primary)
			}
			if names != "" {
				configure(t, primary.URL, "synchronous_standby_names", "'"+names+"'")
			}
			if state != "" {
				await(t, primary.URL, "SELECT sync_state = '"+state+"' FROM pg_stat_replication")
			}
			if url != nil {
				p.url = url(t, primary, standby)
			}
			return p
		}
	}
	run := func(sql string) func(*testing.T, *pgserver.Server, *pgserver.Server) string {
		return func(t *testing.T, primary, _ *pgserver.Server) string {
			exec(t, primary.URL, sql)
			return primary.URL
		}
	}
	return []scenario{
		{
			name: "StandbyAsynchronous", place: at("", "async", nil),
			warnings: []string{"standby_asynchronous"}, evidence: "second (async); synchronous_standby_names = , the default",
		},
		{name: "StandbySynchronousIsFine", place: at("second", "sync", nil), evidence: "second (sync)"},
		{name: "StandbyOfAQuorumIsFine", place: at("ANY 1 (second, third)", "quorum", nil), evidence: "second (quorum)"},
		{
			name: "SynchronousCommitLocalBesideASynchronousStandby", place: at("second", "sync", run("ALTER DATABASE postgres SET synchronous_commit = local")),
			warnings: []string{"synchronous_commit_local"}, evidence: "synchronous_commit = local, set for database postgres; synchronous_standby_names = second",
		},
		{
			name: "SynchronousStandbyMissing", place: at("second", "", nil),
			errors: []string{"synchronous_standby_missing"}, evidence: "synchronous_standby_names = second, set in the server's configuration; connected: no standby",
		},
		{
			name: "OneSynchronousStandbyOfTwoMissing", place: at("FIRST 2 (second, third)", "sync", nil),
			errors: []string{"synchronous_standby_missing"}, evidence: "connected: second (sync)",
		},
		{
			name: "StandbyDisconnected", place: at("", "", run("SELECT pg_create_physical_replication_slot('second', true)")),
			warnings: []string{"standby_disconnected"}, evidence: "inactive physical slots: second",
		},
		{
			// Without pg_read_all_stats a role sees that there is a standby and
			// nothing else. The fix lets it see.
			name: "StandbyThatTheRoleMayNotSee", place: at("second", "sync", func(t *testing.T, primary, _ *pgserver.Server) string { return asRole(t, primary.URL, "app") }),
			unknown: []string{"replication"}, evidence: "role app may see that 1 connections replicate, and not how",
		},
		{
			name: "ReadOnlyEndpoint", place: at("", "async", func(_ *testing.T, _, standby *pgserver.Server) string { return standby.URL }),
			errors: []string{"in_recovery"}, unknown: []string{"replication"},
		},
	}
}
