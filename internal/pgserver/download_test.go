//go:build unix

package pgserver

import (
	"archive/zip"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repository serves one archive under every name, as the Maven repository does
// under the name for this machine. The programs in it, of testdata/programs.txz,
// pass the call on to those in the folder DEDUP_TEST_BINDIR.
func repository(t *testing.T) (url string, downloads *atomic.Int32) {
	t.Helper()
	programs, err := os.ReadFile("testdata/programs.txz")
	require.NoError(t, err)
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	f, err := w.Create("postgres.txz")
	require.NoError(t, err)
	_, err = f.Write(programs)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	downloads = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		downloads.Add(1)
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL, downloads
}

func TestDownload(t *testing.T) {
	t.Setenv("DEDUP_TEST_BINDIR", installedDir(t))

	url, downloads := repository(t)
	cache := filepath.Join(publicDir(t), "cache")
	opts := &Options{Private: true, look: lookups{
		binDirs:    func() []string { return nil },
		repository: url,
		cacheDir:   func() (string, error) { return cache, nil },
	}}

	for range 2 { // the second finds the programs in the cache
		server, err := Start(t.Context(), opts)
		require.NoError(t, err)
		require.Equal(t, WayDownload, server.Way())
		require.Contains(t, server.Source, filepath.Join(cache, string(downloadVersion), "bin"))
		require.NoError(t, connectTo(t, server.URL).Ping(t.Context()))
		require.NoError(t, server.Stop(t.Context()))
	}
	require.EqualValues(t, 1, downloads.Load())

	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the programs")
}

func TestDownloadFails(t *testing.T) {
	t.Parallel()

	look := func(t *testing.T, repository string) *lookups {
		cache := t.TempDir()
		l := lookups{repository: repository, cacheDir: func() (string, error) { return cache, nil }}.withDefaults()
		return &l
	}
	requireEmpty := func(t *testing.T, l *lookups) {
		cache, _ := l.cacheDir()
		entries, err := os.ReadDir(cache)
		require.NoError(t, err)
		require.Empty(t, entries)
	}

	t.Run("NoRepository", func(t *testing.T) {
		t.Parallel()
		l := look(t, "http://127.0.0.1:1")
		_, err := downloadedPrograms(t.Context(), l)
		require.ErrorContains(t, err, "the repository cannot be reached")
		requireEmpty(t, l)
	})

	t.Run("NoArchive", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		l := look(t, server.URL)
		_, err := downloadedPrograms(t.Context(), l)
		require.ErrorContains(t, err, "no version found matching "+string(downloadVersion))
		requireEmpty(t, l)
	})

	t.Run("SilentRepository", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-release
			}
		}))
		t.Cleanup(server.Close)
		t.Cleanup(func() { close(release) })
		l := look(t, server.URL)
		l.downloadWait = time.Nanosecond // over before the repository is asked, which never answers
		_, err := downloadedPrograms(t.Context(), l)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
