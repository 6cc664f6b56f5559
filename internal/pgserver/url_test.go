//go:build unix

package pgserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named returns options under which DEDUP_DATABASE_URL has the value.
func named(url string) *Options {
	return &Options{look: lookups{
		getenv:      func(string) string { return url },
		dockerHosts: func() []string { return nil },
	}}
}

func TestURL(t *testing.T) {
	t.Parallel()

	server := startServer(t, nil)
	ordinary := strings.Replace(server.URL, "postgres@", "ordinary@", 1)
	creator := strings.Replace(server.URL, "postgres@", "creator:secret@", 1)
	_, err := connectTo(t, server.URL).Exec(t.Context(), "CREATE ROLE ordinary LOGIN; CREATE ROLE creator LOGIN CREATEDB")
	require.NoError(t, err)

	t.Run("TakesTheServerAndLeavesItRunning", func(t *testing.T) {
		t.Parallel()
		found, err := Start(t.Context(), named(server.URL))
		require.NoError(t, err)
		require.Equal(t, server.URL, found.URL)
		require.Equal(t, WayURL, found.Way())
		require.Regexp(t, `^PostgreSQL [\d.]+ at postgres://postgres@127.0.0.1:\d+/postgres\?sslmode=disable, from DEDUP_DATABASE_URL$`, found.Source)

		require.ErrorIs(t, found.Kill(), ErrNotPrivate)
		require.NoError(t, found.Stop(t.Context()))
		require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
	})

	t.Run("TakesAUserWhoMayCreateDatabases", func(t *testing.T) {
		t.Parallel()
		found, err := Start(t.Context(), named(creator))
		require.NoError(t, err)
		require.Equal(t, creator, found.URL)
		require.NotContains(t, found.Source, "secret")
	})

	t.Run("RefusesAUserWhoMayNot", func(t *testing.T) {
		t.Parallel()
		opts := named(ordinary)
		opts.look = opts.look.withDefaults()
		_, tried, err := fromURL(t.Context(), opts)
		require.EqualError(t, err, `user "ordinary" may not create databases: ALTER ROLE ... CREATEDB lets it`)
		require.Contains(t, tried, "ordinary@127.0.0.1")
	})

	t.Run("RefusesWhatIsNoURL", func(t *testing.T) {
		t.Parallel()
		for _, raw := range []string{"host=127.0.0.1 password=secret", "postgres://user:secret@host:port/", "mysql://secret@host/"} {
			opts := named(raw)
			_, tried, err := fromURL(t.Context(), opts)
			require.EqualError(t, err, "the variable is not a URL that begins with postgres://")
			require.NotContains(t, tried+err.Error(), "secret")
		}
	})
}
