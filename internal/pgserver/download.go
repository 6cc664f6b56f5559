package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	mavenCentral    = "https://repo1.maven.org/maven2"
	downloadVersion = embeddedpostgres.V17

	// repositoryWait is how long the repository may take to answer at all.
	repositoryWait = 5 * time.Second
)

// fromDownload starts a private server from programs that embedded-postgres
// downloads. They are downloaded once and kept in a cache folder.
func fromDownload(ctx context.Context, opts *Options) (*Server, string, error) {
	tried := fmt.Sprintf("PostgreSQL %s from %s", downloadVersion, opts.look.repository)
	p, err := downloadedPrograms(ctx, &opts.look)
	if err != nil {
		return nil, tried, err
	}
	server, err := startPrivate(ctx, p, opts)
	return server, tried, err
}

// downloadedPrograms returns the programs in the cache folder, after downloading
// them if they are not there.
func downloadedPrograms(ctx context.Context, look *lookups) (programs, error) {
	cache, err := look.cacheDir()
	if err != nil {
		return programs{}, fmt.Errorf("finding a cache folder: %w", err)
	}
	dir := filepath.Join(cache, string(downloadVersion))
	if p, err := readPrograms(ctx, filepath.Join(dir, "bin")); err == nil {
		return p, nil
	}

	if err := askRepository(ctx, look.repository); err != nil {
		return programs{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return programs{}, fmt.Errorf("making the cache folder: %w", err)
	}
	fresh, err := os.MkdirTemp(cache, "new-*")
	if err != nil {
		return programs{}, fmt.Errorf("making the cache folder: %w", err)
	}
	unpacked, err := unpack(ctx, look, fresh)
	if err != nil {
		return programs{}, err
	}
	// Another process may have been first; its programs are as good as ours.
	err = errors.Join(os.Rename(unpacked, dir), os.RemoveAll(fresh))
	p, readErr := readPrograms(ctx, filepath.Join(dir, "bin"))
	if readErr != nil {
		return programs{}, errors.Join(err, readErr)
	}
	return p, nil
}

// askRepository finds out quickly whether the repository can be reached, as the
// library's download knows no time limit.
func askRepository(ctx context.Context, repository string) error {
	ctx, cancel := context.WithTimeout(ctx, repositoryWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, repository+"/", nil)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("the repository cannot be reached: %w", err)
	}
	_ = resp.Body.Close() // any answer will do
	return nil
}

// unpack downloads the archive, unpacks it below the folder fresh and returns
// where. If it fails it removes fresh, if need be after it has returned: a
// download that takes too long cannot be cancelled, only left to itself.
func unpack(ctx context.Context, look *lookups, fresh string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, look.downloadWait)
	defer cancel()

	target := filepath.Join(fresh, "programs")
	done := make(chan error, 1)
	go func() {
		err := runLibrary(look.repository, fresh, target)
		if err != nil || ctx.Err() != nil {
			_ = os.RemoveAll(fresh)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return "", fmt.Errorf("downloading the programs: %w", err)
		}
		return target, nil
	case <-ctx.Done():
		return "", fmt.Errorf("downloading the programs: %w", ctx.Err())
	}
}

// runLibrary has embedded-postgres download and unpack its archive into target.
// The library then runs initdb, with no way to stop in between, which fails for
// root. We want the programs only, so initdb is made to refuse whoever runs it,
// by an encoding that does not exist, and what counts is what lies in target.
func runLibrary(repository, fresh, target string) error {
	port, err := freePort() // checked by the library, and not used
	if err != nil {
		return err
	}
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(downloadVersion).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(fresh, "archive")).
		BinariesPath(target).
		RuntimePath(filepath.Join(fresh, "runtime")).
		Encoding("only-the-programs-are-wanted").
		Port(uint32(port)).
		Logger(io.Discard)).Start()
	http.DefaultClient.CloseIdleConnections() // which the library used

	for _, name := range []string{"initdb", "postgres"} {
		if _, statErr := os.Stat(program(filepath.Join(target, "bin"), name)); statErr != nil {
			return errors.Join(err, statErr)
		}
	}
	return nil
}

// programsCache returns the folder that keeps downloaded programs. For root it is
// one that the server's account may enter, unlike root's home.
func programsCache() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/dedup-postgres", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "dedup-postgres"), nil
}
