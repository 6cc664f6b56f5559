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
	for range 2 { // the second finds the programs in the cache
		server, err := downloaded(url, cache)(t.Context(), &Options{})
		require.NoError(t, err)
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

	t.Run("NoArchive", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(server.Close)
		cache := t.TempDir()
		_, err := downloaded(server.URL, cache)(t.Context(), &Options{})
		require.ErrorContains(t, err, "no version found matching "+string(downloadVersion))
		entries, err := os.ReadDir(cache)
		require.NoError(t, err)
		require.Empty(t, entries)
	})

	t.Run("SilentRepository", func(t *testing.T) {
		t.Parallel()
		asked, release := make(chan struct{}, 2), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked <- struct{}{}
			<-release
		}))
		t.Cleanup(server.Close)
		t.Cleanup(func() { close(release) })
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		_, err := downloaded(server.URL, t.TempDir())(ctx, &Options{})
		require.ErrorIs(t, err, context.Canceled)
	})
}
