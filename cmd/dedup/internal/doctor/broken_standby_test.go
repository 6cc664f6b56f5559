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

// synchronous makes the primary wait for standbys, and returns once it knows how
// the one that is there replicates.
func synchronous(t *testing.T, primary *pgserver.Server, names, state string) {
	t.Helper()
	configure(t, primary.URL, "synchronous_standby_names", "'"+names+"'")
	if state != "" {
		await(t, primary.URL, "SELECT sync_state = '"+state+"' FROM pg_stat_replication")
	}
}

// standbyScenarios are real primaries and standbys.
func standbyScenarios() []scenario {
	at := func(prepare func(t *testing.T, primary *pgserver.Server) (url string)) func(*testing.T) place {
		return func(t *testing.T) place {
			primary := private(t, nil)
			return place{url: prepare(t, primary), owner: primary.URL}
		}
	}
	return []scenario{
		{
			name: "StandbyAsynchronous",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				return primary.URL
			}),
			warnings: []string{"standby_asynchronous"}, evidence: "second (async); synchronous_standby_names = , the default",
		},
		{
			name: "StandbySynchronousIsFine",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				synchronous(t, primary, "second", "sync")
				return primary.URL
			}),
			evidence: "second (sync)",
		},
		{
			name: "StandbyOfAQuorumIsFine",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				synchronous(t, primary, "ANY 1 (second, third)", "quorum")
				return primary.URL
			}),
			evidence: "second (quorum)",
		},
		{
			name: "SynchronousCommitLocalBesideASynchronousStandby",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				exec(t, primary.URL, "ALTER DATABASE postgres SET synchronous_commit = local")
				synchronous(t, primary, "second", "sync")
				return primary.URL
			}),
			warnings: []string{"synchronous_commit_local"}, evidence: "synchronous_commit = local, set for database postgres; synchronous_standby_names = second",
		},
		{
			name: "SynchronousStandbyMissing",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				synchronous(t, primary, "second", "")
				return primary.URL
			}),
			errors: []string{"synchronous_standby_missing"}, evidence: "synchronous_standby_names = second, set in the server's configuration; connected: no standby",
		},
		{
			name: "OneSynchronousStandbyOfTwoMissing",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				synchronous(t, primary, "FIRST 2 (second, third)", "sync")
				return primary.URL
			}),
			errors: []string{"synchronous_standby_missing"}, evidence: "connected: second (sync)",
		},
		{
			name: "StandbyDisconnected",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				exec(t, primary.URL, "SELECT pg_create_physical_replication_slot('second', true)")
				return primary.URL
			}),
			warnings: []string{"standby_disconnected"}, evidence: "inactive physical slots: second",
		},
		{
			// Without pg_read_all_stats a role sees that there is a standby and
			// nothing else. The fix lets it see.
			name: "StandbyThatTheRoleMayNotSee",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				follow(t, primary)
				synchronous(t, primary, "second", "sync")
				return asRole(t, primary.URL, "app")
			}),
			unknown: []string{"replication"}, evidence: "role app may see that 1 connections replicate, and not how",
		},
		{
			name: "ReadOnlyEndpoint",
			place: at(func(t *testing.T, primary *pgserver.Server) string {
				return follow(t, primary).URL
			}),
			errors: []string{"in_recovery"}, unknown: []string{"replication"},
		},
	}
}
