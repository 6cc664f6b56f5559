package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs is a folder that holds initdb and postgres of one version.
type programs struct {
	dir     string
	version string // "15.18", "17beta1"
	order   []int  // the numbers of version, to sort by
}

// fromInstalled starts a private server from installed programs, newest first.
func fromInstalled(ctx context.Context, opts *Options) (*Server, string, error) {
	dirs := opts.look.binDirs()
	found, err := findPrograms(ctx, dirs)
	if len(found) == 0 {
		return nil, "the folders " + strings.Join(dirs, ", "), errors.Join(err, fmt.Errorf("no folder has both initdb and postgres: %w", errAbsent))
	}

	var tried []string
	errs := []error{err}
	for _, p := range found {
		server, err := startPrivate(ctx, p, opts)
		if err == nil {
			return server, "", nil
		}
		tried = append(tried, p.dir)
		errs = append(errs, fmt.Errorf("PostgreSQL %s from %s: %w", p.version, p.dir, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, strings.Join(tried, ", "), errors.Join(errs...)
}

// fromBinDir starts a private server from [Options.BinDir].
func fromBinDir(ctx context.Context, opts *Options) (*Server, string, error) {
	dir, err := filepath.Abs(opts.BinDir)
	if err != nil {
		return nil, opts.BinDir, err
	}
	p, err := readPrograms(ctx, dir)
	if err != nil {
		return nil, dir, err
	}
	server, err := startPrivate(ctx, p, opts)
	return server, dir, err
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
		`C:\Program Files\PostgreSQL\*\bin`,
	} {
		matches, _ := filepath.Glob(pattern)
		dirs = append(dirs, matches...)
	}
	return dirs
}

// findPrograms returns the complete folders among dirs, newest version first and
// each once. Its error tells of folders that look complete and do not work.
func findPrograms(ctx context.Context, dirs []string) ([]programs, error) {
	var found []programs
	var errs []error
	seen := map[string]bool{}
	for _, dir := range dirs {
		dir = resolve(dir)
		if dir == "" || seen[dir] {
			continue
		}
		seen[dir] = true
		p, err := readPrograms(ctx, dir)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b programs) int { return slices.Compare(b.order, a.order) })
	return found, errors.Join(errs...)
}

// resolve follows a link such as /usr/local/bin/postgres to the folder where the
// program is. It returns "" for a folder without the program.
func resolve(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	target, err := filepath.EvalSymlinks(program(dir, "postgres"))
	if err != nil {
		return ""
	}
	if _, err := os.Stat(program(filepath.Dir(target), "initdb")); err == nil {
		return filepath.Dir(target)
	}
	return dir
}

// readPrograms asks the folder's postgres for its version. The error wraps
// errAbsent if one of the programs is not there.
func readPrograms(ctx context.Context, dir string) (programs, error) {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(program(dir, name)); err != nil {
			return programs{}, fmt.Errorf("%w: %w", err, errAbsent)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program(dir, "postgres"), "--version").CombinedOutput()
	if err != nil {
		return programs{}, fmt.Errorf("%s --version: %w: %s", program(dir, "postgres"), err, strings.TrimSpace(string(out)))
	}
	version := regexp.MustCompile(`\d+[\w.]*`).FindString(string(out))
	if version == "" {
		return programs{}, fmt.Errorf("%s --version: no version in %q", program(dir, "postgres"), out)
	}
	return programs{dir: dir, version: version, order: versionOrder(version)}, nil
}

// versionOrder returns the numbers of a version. The letters of a beta or a
// release candidate count as -1, so that it sorts before the release.
func versionOrder(version string) []int {
	var order []int
	for _, part := range regexp.MustCompile(`\d+|[a-z]+`).FindAllString(version, -1) {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = -1
		}
		order = append(order, n)
	}
	return order
}

// program returns the path of a program in a folder.
func program(dir, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(dir, name)
}
