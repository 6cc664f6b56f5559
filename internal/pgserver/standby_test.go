//go:build unix

package pgserver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStandbyFollowsAndTakesOver(t *testing.T) {
	t.Parallel()

	primary := startServer(t, nil)
	standby, err := primary.StartStandby(t.Context(), "second", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Stop(context.Background())) })
	require.Contains(t, standby.Source, "a standby named second")
	require.Equal(t, primary.Way(), standby.Way())

	writer, reader := connectTo(t, primary.URL), connectTo(t, standby.URL)
	require.Equal(t, "second", query(t, writer, "SELECT application_name FROM pg_stat_replication"))
	require.Equal(t, "true", query(t, reader, "SELECT pg_is_in_recovery()::text"))
	_, err = writer.Exec(t.Context(), "CREATE TABLE notes AS SELECT 'kept' AS text")
	require.NoError(t, err)
	written := query(t, writer, "SELECT pg_current_wal_insert_lsn()::text")
	require.Eventually(t, func() bool {
		return query(t, reader, "SELECT (pg_last_wal_replay_lsn() >= '"+written+"')::text") == "true"
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "kept", query(t, reader, "SELECT text FROM notes"))

	require.NoError(t, primary.Kill())
	require.Equal(t, "true", query(t, reader, "SELECT pg_promote()::text"))
	_, err = reader.Exec(t.Context(), "INSERT INTO notes VALUES ('added')")
	require.NoError(t, err)
}

func TestStandbyOfAServerThatIsNotPrivate(t *testing.T) {
	t.Parallel()

	_, err := (&Server{}).StartStandby(t.Context(), "second", nil)
	require.ErrorIs(t, err, ErrNotPrivate)
}
