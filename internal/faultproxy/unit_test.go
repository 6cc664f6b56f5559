package faultproxy

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// track returns the units of messages, and whether one is left open.
func track(t *testing.T, messages ...pgproto3.FrontendMessage) (units []Unit, open bool) {
	t.Helper()
	tracker := newTracker(7)
	tracker.next() // start-up
	for _, m := range messages {
		frame, err := m.Encode(nil)
		require.NoError(t, err)
		if tracker.add(frame[0], frame[5:]) {
			units = append(units, tracker.next())
		}
	}
	return units, tracker.open
}

func TestTracker(t *testing.T) {
	t.Parallel()

	t.Run("Query", func(t *testing.T) {
		t.Parallel()
		units, open := track(t, &pgproto3.Query{String: "insert into t values (1)\n;commit"}, &pgproto3.Query{String: "-- ping"})
		require.False(t, open)
		require.Equal(t, []Unit{
			{Conn: 7, Index: 1, Executes: []string{"insert into t values (1)", "commit"}, Commits: true},
			{Conn: 7, Index: 2},
		}, units)
	})

	t.Run("Unnamed", func(t *testing.T) {
		t.Parallel()
		units, _ := track(t,
			&pgproto3.Parse{Query: "select 1"}, &pgproto3.Bind{}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{},
			&pgproto3.Parse{Query: "commit"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{})
		require.Len(t, units, 1)
		require.Equal(t, []string{"select 1", "commit"}, units[0].Executes)
		require.Equal(t, []string{"select 1", "commit"}, units[0].Prepares)
		require.True(t, units[0].Commits)
	})

	t.Run("PreparedEarlier", func(t *testing.T) {
		t.Parallel()
		units, open := track(t,
			&pgproto3.Parse{Name: "a", Query: "insert"}, &pgproto3.Parse{Name: "b", Query: "commit"}, &pgproto3.Sync{},
			&pgproto3.Bind{PreparedStatement: "a"}, &pgproto3.Execute{},
			&pgproto3.Bind{PreparedStatement: "b", DestinationPortal: "p"}, &pgproto3.Execute{Portal: "p"}, &pgproto3.Sync{},
			&pgproto3.Close{ObjectType: 'S', Name: "b"}, &pgproto3.Close{ObjectType: 'P', Name: "p"}, &pgproto3.Sync{},
			&pgproto3.Bind{PreparedStatement: "b"}, &pgproto3.Execute{})
		require.True(t, open)
		require.Len(t, units, 3)
		require.False(t, units[0].Commits, "preparing a COMMIT is none")
		require.Equal(t, []string{"insert", "commit"}, units[0].Prepares)
		require.Equal(t, []string{"insert", "commit"}, units[1].Executes)
		require.True(t, units[1].Commits)
		require.Empty(t, units[2].Executes)
	})

	t.Run("CopyBelongsToNoUnit", func(t *testing.T) {
		t.Parallel()
		units, open := track(t, &pgproto3.CopyData{Data: []byte("commit")}, &pgproto3.CopyDone{}, &pgproto3.Terminate{})
		require.Empty(t, units)
		require.False(t, open)
	})
}

func TestAims(t *testing.T) {
	t.Parallel()

	unit := Unit{Index: 3, Executes: []string{"INSERT INTO done"}, Prepares: []string{"Commit"}}
	require.True(t, AtSQL("insert into")(unit))
	require.False(t, AtSQL("commit")(unit))
	require.False(t, AtCommit(unit))
	require.False(t, AtConnect(unit))
	require.True(t, AtConnect(Unit{}))
}
