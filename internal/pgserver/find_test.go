package pgserver

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingWorks(t *testing.T) {
	t.Parallel()

	empty := t.TempDir()
	ways := waysTo(&Options{})
	for i, start := range []func(){ // each where it leads to nothing
		func() { ways[0].start = named("postgres://user:secret@127.0.0.1:1/postgres?sslmode=disable") },
		func() { ways[1].start = container([]string{"unix://" + filepath.Join(empty, "docker.sock")}) },
		func() { ways[2].start = installed([]string{empty}) },
		func() { ways[3].start = downloaded("http://127.0.0.1:1", empty) },
	} {
		start()
		require.Equal(t, []Way{WayURL, WayDocker, WayInstalled, WayDownload}[i], ways[i].name)
	}
	_, err := find(t.Context(), ways, &Options{})
	text := err.Error()
	for i, tried := range []string{"postgres://user:xxxxx@127.0.0.1:1/", "docker.sock", empty, "http://127.0.0.1:1"} {
		for _, part := range []string{string(ways[i].name) + ": ", tried, "fix: " + ways[i].fix} {
			before, after, found := strings.Cut(text, part)
			require.True(t, found, "%s after %s", part, before)
			text = after
		}
	}
	require.NotContains(t, err.Error(), "secret")
}

func TestAWayThatFailsIsPassedOverAndNamed(t *testing.T) {
	t.Parallel()

	ways := waysTo(&Options{})
	ways[0].start, ways[1].start = named("postgres://postgres@127.0.0.1:1/postgres?sslmode=disable"), container(nil)
	var line string
	server, err := find(t.Context(), ways, &Options{Logf: func(_ string, args ...any) { line = args[0].(string) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(t.Context())) })

	require.Equal(t, WayInstalled, server.Way)
	require.Equal(t, server.Source, line)
	require.Regexp(t, `data in a temporary folder below \S+ \(DEDUP_DATABASE_URL failed: [^;]+\)$`, line, "and Docker, which is not there, is left out")
	require.NotContains(t, line, "\n")
}

func TestBinDirIsTheOnlyWay(t *testing.T) {
	t.Setenv("DEDUP_DATABASE_URL", "postgres://not.used/")

	dir := installedDir(t)
	server, err := Start(t.Context(), &Options{BinDir: dir})
	require.NoError(t, err)
	require.Equal(t, WayInstalled, server.Way)
	require.Contains(t, server.Source, dir)
	require.NoError(t, server.Stop(t.Context()))

	_, err = Start(t.Context(), &Options{BinDir: t.TempDir()})
	require.ErrorContains(t, err, "no folder has both")
	require.NotContains(t, err.Error(), WayURL)
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
		found, err := named(server.URL)(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, server.URL, found.URL)
		require.Regexp(t, `^PostgreSQL [\d.]+ at postgres://postgres@127.0.0.1:\d+/postgres\?sslmode=disable, from DEDUP_DATABASE_URL$`, found.Source)

		require.ErrorIs(t, found.Kill(), ErrNotPrivate)
		require.NoError(t, found.Stop(t.Context()))
		require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
	})

	t.Run("TakesAUserWhoMayCreateDatabases", func(t *testing.T) {
		t.Parallel()
		found, err := named(creator)(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, creator, found.URL)
		require.NotContains(t, found.Source, "secret")
	})

	t.Run("RefusesAUserWhoMayNot", func(t *testing.T) {
		t.Parallel()
		_, err := named(ordinary)(t.Context(), nil)
		require.EqualError(t, err, ordinary+`: user "ordinary" may not create databases: ALTER ROLE ... CREATEDB lets it`)
	})

	t.Run("RefusesWhatIsNoURL", func(t *testing.T) {
		t.Parallel()
		for _, raw := range []string{"host=127.0.0.1 password=secret", "postgres://user:secret@host:port/", "mysql://secret@host/"} {
			_, err := named(raw)(t.Context(), nil)
			require.EqualError(t, err, "the variable is not a URL that begins with postgres://")
		}
	})
}
