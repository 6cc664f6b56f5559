package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs is a folder that holds initdb and postgres of one version.
type programs struct {
	dir     string
	version string // "15.18", "17beta1"
}

// installed starts a private server from the programs in the folders, newest first.
func installed(dirs []string) func(context.Context, *Options) (*Server, error) {
	return func(ctx context.Context, opts *Options) (*Server, error) {
		found, err := findPrograms(ctx, dirs)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no folder has both initdb and postgres, of %s: %w", strings.Join(dirs, ", "), errAbsent)
		}
		errs := []error{err}
		for _, p := range found {
			server, err := startPrivate(ctx, p, opts)
			if err == nil || ctx.Err() != nil {
				return server, err
			}
			errs = append(errs, fmt.Errorf("PostgreSQL %s from %s: %w", p.version, p.dir, err))
		}
		return nil, errors.Join(errs...)
	}
}

// binDirs returns the folders where server programs may be: those on PATH, then
// those where distributions and package managers put them.
func binDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // the project's RPMs
		"/usr/libexec/postgresql*",          // Alpine
		"/usr/lib64/pgsql/bin",              // Fedora's older layout
		"/usr/lib/postgresql*/bin",          // openSUSE
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/opt/local/lib/postgresql*/bin", // MacPorts
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/Library/PostgreSQL/*/bin", // EDB's installer on macOS
		"/opt/PostgreSQL/*/bin",
		"/usr/local/pgsql/bin", // built from source
	} {
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}
	return dirs
}

// findPrograms returns the complete folders among dirs, newest version first and
// each once. Its error tells of folders that look complete and do not work.
func findPrograms(ctx context.Context, dirs []string) (found []programs, err error) {
	for _, dir := range dirs {
		p, readErr := readPrograms(ctx, dir)
		switch {
		case errors.Is(readErr, errAbsent):
		case readErr != nil:
			err = errors.Join(err, readErr)
		case !slices.Contains(found, p):
			found = append(found, p)
		}
	}
	slices.SortStableFunc(found, func(a, b programs) int { return compareVersions(b.version, a.version) })
	return found, err
}

// readPrograms asks the folder's postgres for its version. The error wraps errAbsent if one of the
// programs is not there. A link such as /usr/local/bin/postgres leads to the folder of the program.
func readPrograms(ctx context.Context, dir string) (programs, error) {
	postgres, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil || !filepath.IsAbs(dir) {
		return programs{}, errAbsent
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(postgres), "initdb")); err == nil {
		dir = filepath.Dir(postgres)
	} else if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return programs{}, errAbsent
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").CombinedOutput()
	version := regexp.MustCompile(`\d+[\w.]*`).FindString(string(out))
	if err == nil && version == "" {
		err = errors.New("no version")
	}
	if err != nil {
		return programs{}, fmt.Errorf("%s --version: %w: %s", filepath.Join(dir, "postgres"), err, strings.TrimSpace(string(out)))
	}
	return programs{dir: dir, version: version}, nil
}

// compareVersions compares number by number. The letters of a beta or a release candidate count
// as -1, so that it comes before the release.
func compareVersions(a, b string) int {
	numbers := func(version string) (order []int) {
		for _, part := range regexp.MustCompile(`\d+|[a-z]+`).FindAllString(version, -1) {
			n, err := strconv.Atoi(part)
			if err != nil {
				n = -1
			}
			order = append(order, n)
		}
		return order
	}
	return slices.Compare(numbers(a), numbers(b))
}
