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

	// repositoryWait is how long the repository may take to answer at all, downloadWait how long
	// a download may take.
	repositoryWait = 5 * time.Second
	downloadWait   = 5 * time.Minute
)

// downloaded starts a private server from programs that embedded-postgres downloads from a Maven
// repository. They are downloaded once and kept in the cache folder.
func downloaded(repository, cache string) func(context.Context, *Options) (*Server, error) {
	return func(ctx context.Context, opts *Options) (*Server, error) {
		dir := filepath.Join(cache, string(downloadVersion))
		p, err := readPrograms(ctx, filepath.Join(dir, "bin"))
		if err != nil {
			if err = download(ctx, repository, cache, dir); err == nil {
				p, err = readPrograms(ctx, filepath.Join(dir, "bin"))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL %s from %s, kept in %s: %w", downloadVersion, repository, dir, err)
		}
		return startPrivate(ctx, p, opts)
	}
}

// download downloads the programs into dir, a folder of the cache. embedded-postgres takes no
// context. If ctx ends first, the download continues in the background and removes its files at the
// end.
func download(ctx context.Context, repository, cache, dir string) error {
	if err := reach(ctx, repository); err != nil {
		return fmt.Errorf("it cannot be reached: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(cache, "new-*")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadWait)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		unpacked, err := unpack(repository, fresh)
		if err == nil {
			err = os.Rename(unpacked, dir)
			if _, there := os.Stat(filepath.Join(dir, "bin", "postgres")); there == nil {
				err = nil // another process was first, and its programs are as good
			}
		}
		done <- errors.Join(err, os.RemoveAll(fresh))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reach finds out quickly whether the repository answers.
func reach(ctx context.Context, repository string) error {
	ctx, cancel := context.WithTimeout(ctx, repositoryWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, repository+"/", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close() // any answer will do
}

// unpack makes embedded-postgres download and unpack its archive below the folder fresh, and
// returns the folder of the programs. After that the library always runs initdb, which fails for
// root. Only the programs are needed here: an encoding that does not exist makes initdb fail for
// every user, and unpack checks for the programs instead of the error.
func unpack(repository, fresh string) (dir string, err error) {
	dir = filepath.Join(fresh, "programs")
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(downloadVersion).
		BinaryRepositoryURL(repository).
		CachePath(filepath.Join(fresh, "archive")).
		BinariesPath(dir).
		RuntimePath(filepath.Join(fresh, "runtime")).
		Encoding("only-the-programs-are-wanted").
		Port(0). // which the library checks, and does not use
		Logger(io.Discard)).Start()
	http.DefaultClient.CloseIdleConnections() // which the library used
	for _, name := range []string{"initdb", "postgres"} {
		if _, statErr := os.Stat(filepath.Join(dir, "bin", name)); statErr != nil {
			return "", errors.Join(err, statErr)
		}
	}
	return dir, nil
}

// programsCache returns the folder that keeps downloaded programs. For root it is
// one that the server's account may enter, unlike root's home.
func programsCache() string {
	dir, err := os.UserCacheDir()
	if err != nil || os.Geteuid() == 0 {
		dir = "/var/cache"
	}
	return filepath.Join(dir, "dedup-postgres")
}
