package pgserver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindPrograms(t *testing.T) {
	t.Parallel()

	root := publicDir(t)
	install := func(dir, version string) string {
		dir = filepath.Join(root, dir)
		writeProgram(t, dir, "initdb", "exit 1")
		writeProgram(t, dir, "postgres", "echo 'postgres (PostgreSQL) "+version+"'")
		return dir
	}
	dirs := []string{
		install("nine", "9.6.24"),
		install("beta", "18beta1"),
		install("old", "13.21 (Debian 13.21-1)"),
		install("new", "18.3"),
		install("ten", "17.10"),
		install("two", "17.2"),
		filepath.Join(root, "missing"),
		"relative",
	}

	half := filepath.Join(root, "half")
	writeProgram(t, half, "postgres", "exit 1")
	broken := filepath.Join(root, "broken")
	writeProgram(t, broken, "initdb", "exit 1")
	writeProgram(t, broken, "postgres", "echo libssl is missing; exit 127")
	links := filepath.Join(root, "links")
	require.NoError(t, os.Mkdir(links, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(root, "new", "postgres"), filepath.Join(links, "postgres")))
	dirs = append(dirs, half, broken, links, dirs[0])

	found, err := findPrograms(t.Context(), dirs)
	require.ErrorContains(t, err, "libssl is missing")
	var versions, names []string
	for _, p := range found {
		versions = append(versions, p.version)
		names = append(names, filepath.Base(p.dir))
	}
	require.Equal(t, []string{"18.3", "18beta1", "17.10", "17.2", "13.21", "9.6.24"}, versions)
	require.Equal(t, []string{"new", "beta", "ten", "two", "old", "nine"}, names)
}

func TestAFolderThatFailsIsPassedOver(t *testing.T) {
	t.Parallel()

	newest := publicDir(t)
	writeProgram(t, newest, "initdb", "echo out of order >&2; exit 1")
	writeProgram(t, newest, "postgres", "echo 'postgres (PostgreSQL) 99.1'")

	server, err := installed([]string{newest, installedDir(t)})(t.Context(), &Options{})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.NotContains(t, server.Source, "99.1 from")

	_, err = installed([]string{newest})(t.Context(), &Options{})
	require.ErrorContains(t, err, "PostgreSQL 99.1 from "+newest+": initdb: exit status 1")
	require.ErrorContains(t, err, "out of order")
}
