package doctor_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// On a real cluster: plain tables beside a distributed table, tables that are not co-located, and a
// setting of another node.
func TestCitusCluster(t *testing.T) {
	t.Parallel()

	cluster := pgtest.NewCitus(t)
	db := cluster.Coordinator()
	ofCitus := func() map[string]doctor.Finding {
		found := map[string]doctor.Finding{}
		for _, f := range examine(t, db.URL).Findings {
			if f.Severity != doctor.SeverityOK && (strings.HasPrefix(f.ID, "citus") || f.ID == "synchronous_commit_off") {
				found[f.ID] = f
			}
		}
		return found
	}
	exec(t, db.URL, "SELECT citus_version()") // which starts the maintenance daemon on every node that is asked
	require.Eventually(t, func() bool { return len(ofCitus()) == 0 }, 10*time.Minute, 100*time.Millisecond)

	exec(t, db.URL, "CREATE TABLE notes (text text)")
	require.Contains(t, ofCitus()[migrations.ProblemPlainTables].What, "public.notes")
	exec(t, db.URL, "SELECT citus_add_local_table_to_metadata('notes')")

	exec(t, db.URL, "CREATE TABLE bookings (tenant text)")
	exec(t, db.URL, "SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'none')")
	found := ofCitus()["citus_not_colocated"]
	require.Contains(t, found.Evidence, "bookings")
	require.Contains(t, found.Fix, `text COLLATE "C"`)
	// The advice works.
	exec(t, db.URL, "SELECT undistribute_table('bookings')")
	exec(t, db.URL, `ALTER TABLE bookings ALTER COLUMN tenant TYPE text COLLATE "C"`)
	exec(t, db.URL, "SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'tool_dedup')")
	require.Empty(t, ofCitus())

	worker, err := url.Parse(cluster.Nodes[2].URL)
	require.NoError(t, err)
	exec(t, cluster.Nodes[2].URL, "ALTER DATABASE "+db.Name+" SET synchronous_commit = off")
	require.Contains(t, ofCitus()["synchronous_commit_off"].Evidence, "on node "+worker.Host+" synchronous_commit = off")
}
