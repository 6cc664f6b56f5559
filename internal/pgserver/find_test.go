//go:build unix

package pgserver

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNothingWorks(t *testing.T) {
	t.Parallel()

	empty := t.TempDir()
	_, err := Start(t.Context(), &Options{look: lookups{
		getenv:      func(string) string { return "postgres://user:secret@127.0.0.1:1/postgres?sslmode=disable" },
		dockerHosts: func() []string { return []string{"unix://" + filepath.Join(empty, "docker.sock")} },
		binDirs:     func() []string { return []string{empty} },
		repository:  "http://127.0.0.1:1",
		cacheDir:    func() (string, error) { return empty, nil },
	}})

	var notFound *NotFoundError
	require.ErrorAs(t, err, &notFound)
	var ways []Way
	for _, attempt := range notFound.Attempts {
		ways = append(ways, attempt.Way)
		require.ErrorIs(t, err, attempt.Err)
		for _, part := range []string{string(attempt.Way), attempt.Tried, attempt.Fix} {
			require.NotEmpty(t, part)
			require.ErrorContains(t, err, part)
		}
	}
	require.Equal(t, []Way{WayURL, WayDocker, WayInstalled, WayDownload}, ways)
	require.NotContains(t, err.Error(), "secret")
	require.Len(t, notFound.Unwrap(), 4)
	t.Log(err)
}

func TestAWayThatFailsIsPassedOverAndNamed(t *testing.T) {
	t.Parallel()

	opts := named("postgres://postgres@127.0.0.1:1/postgres?sslmode=disable")
	var line string
	opts.Logf = func(_ string, args ...any) { line = args[0].(string) }
	server, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(t.Context())) })

	require.Equal(t, WayInstalled, server.Way())
	require.Equal(t, server.Source, line)
	require.Regexp(t, `data in a temporary folder below \S+ \(DEDUP_DATABASE_URL failed: [^;]+\)$`, line, "and Docker, which is not there, is left out")
	require.NotContains(t, line, "\n")
}

func TestBinDirIsTheOnlyWay(t *testing.T) {
	t.Parallel()

	t.Run("Works", func(t *testing.T) {
		t.Parallel()
		opts := named("postgres://not.used/")
		opts.BinDir = installedDir(t)
		server, err := Start(t.Context(), opts)
		require.NoError(t, err)
		require.Equal(t, WayInstalled, server.Way())
		require.Contains(t, server.Source, opts.BinDir)
		require.NoError(t, server.Stop(t.Context()))
	})

	t.Run("Fails", func(t *testing.T) {
		t.Parallel()
		_, err := Start(t.Context(), &Options{BinDir: t.TempDir()})
		var notFound *NotFoundError
		require.ErrorAs(t, err, &notFound)
		require.Len(t, notFound.Attempts, 1)
	})
}

func TestPassedOverIsOneLine(t *testing.T) {
	t.Parallel()

	require.Empty(t, passedOver([]Attempt{{Way: WayURL, Err: errAbsent}}))
	require.Equal(t, " (Docker failed: no; installed programs failed: initdb: exit status 1)", passedOver([]Attempt{
		{Way: WayDocker, Err: errors.New("no")},
		{Way: WayInstalled, Err: errors.New("initdb: exit status 1:\nmany\nlines")},
	}))
}
