// Package pgbouncer finds and starts PgBouncer for tests: in transaction pooling
// mode, in front of a server that the tests already have.
//
// It is looked for in the folder named by DEDUP_PGBOUNCER, in PATH, and where
// distributions put it. The folder may also be one into which `make pgbouncer` has
// unpacked its package.
package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/process"
)

// Install is the command that installs PgBouncer on Debian and Ubuntu.
const Install = "apt-get install --yes --no-install-recommends pgbouncer"

// ErrAbsent is returned by [Start] when there is no PgBouncer on this machine.
var ErrAbsent = errors.New("pgbouncer: not found in DEDUP_PGBOUNCER, PATH or /usr/sbin; run `" + Install + "`")

const (
	// startWait bounds a start, stopWait an orderly end.
	startWait = 10 * time.Second
	stopWait  = 5 * time.Second

	// startPause is the pause between two tries to connect.
	startPause = 5 * time.Millisecond

	// port is part of the name of the socket and nothing else: PgBouncer does
	// not listen on TCP here.
	port = "6432"
)

// A Bouncer is a PgBouncer that runs.
type Bouncer struct {
	dir  string // the configuration, the log and the socket
	cmd  *exec.Cmd
	stop func() error // closes the pipe on which the program's life depends
	done chan error
}

// New starts a PgBouncer in front of the server of upstreamURL and stops it when
// the test ends. Without a PgBouncer the test is skipped, with the command that
// installs it. The settings are those of [Start].
func New(tb testing.TB, upstreamURL string, settings ...string) *Bouncer {
	tb.Helper()
	b, err := Start(tb.Context(), upstreamURL, settings...)
	if errors.Is(err, ErrAbsent) {
		tb.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("pgbouncer's log:\n%s", b.log())
		}
		if err := b.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// Start starts a PgBouncer in front of the server of upstreamURL, for all of its databases, and
// returns once it accepts connections. The settings are lines of its configuration, such as
// "pool_mode = session", and override the default ones. Without the program the error is
// [ErrAbsent].
func Start(ctx context.Context, upstreamURL string, settings ...string) (*Bouncer, error) {
	program, env, err := process.Find("pgbouncer", os.Getenv("DEDUP_PGBOUNCER"))
	if err != nil {
		return nil, ErrAbsent
	}
	account, err := pgserver.Unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dedup-pgbouncer-")
	if err != nil {
		return nil, fmt.Errorf("pgbouncer: making a folder: %w", err)
	}
	b := &Bouncer{dir: dir, done: make(chan error, 1)}
	if err := b.configure(upstreamURL, account, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := b.launch(program, env, account); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := b.awaitReady(ctx, upstreamURL); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// URL is the way through the bouncer to the database of another URL of the
// server.
func (b *Bouncer) URL(databaseURL string) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("pgbouncer: reading the database's URL: %w", err)
	}
	query := u.Query()
	query.Set("host", b.dir)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = "", query.Encode()
	return u.String(), nil
}

// Stop ends the program and removes its folder.
func (b *Bouncer) Stop() error {
	_ = b.stop()
	select {
	case <-b.done: //nolint:errcheck // how it ended does not matter any more
	case <-time.After(stopWait):
		_ = b.cmd.Process.Kill()
		<-b.done //nolint:errcheck // as above
	}
	return os.RemoveAll(b.dir)
}

// configure writes the configuration: every database of the server, transaction
// pooling, and few server connections, so that clients do change them.
func (b *Bouncer) configure(upstreamURL string, account *pgserver.Account, settings []string) error {
	server, err := pgx.ParseConfig(upstreamURL)
	if err != nil {
		return fmt.Errorf("pgbouncer: reading the server's URL: %w", err)
	}
	upstream := fmt.Sprintf("* = host='%s' port=%d user='%s'", quoted(server.Host), server.Port, quoted(server.User))
	if server.Password != "" {
		upstream += fmt.Sprintf(" password='%s'", quoted(server.Password))
	}
	lines := []string{
		"[databases]", upstream, "[pgbouncer]",
		"pool_mode = transaction",
		"auth_type = any",
		"unix_socket_dir = " + b.dir,
		"unix_socket_mode = 0777",
		"listen_port = " + port,
		"logfile = " + filepath.Join(b.dir, "log"),
		"default_pool_size = 20",
		"max_client_conn = 1000",
		"ignore_startup_parameters = extra_float_digits",
	}
	text := strings.Join(append(lines, settings...), "\n") + "\n"
	if err := os.WriteFile(b.config(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("pgbouncer: writing its configuration: %w", err)
	}
	return account.Own(b.dir, b.config())
}

func (b *Bouncer) config() string { return filepath.Join(b.dir, "pgbouncer.ini") }

func (b *Bouncer) log() string {
	text, _ := os.ReadFile(filepath.Join(b.dir, "log"))
	return string(text)
}

// launch starts the program, which ends with this process.
func (b *Bouncer) launch(program string, env []string, account *pgserver.Account) error {
	args := []string{"-q"}
	if account != nil {
		args = append(args, "-u", account.Name)
	}
	b.cmd = process.Tied(program, append(args, b.config())...)
	b.cmd.Env = append(os.Environ(), env...)
	leash, err := b.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("pgbouncer: starting: %w", err)
	}
	b.stop = leash.Close
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("pgbouncer: starting: %w", err)
	}
	go func() { b.done <- b.cmd.Wait() }()
	return nil
}

func (b *Bouncer) awaitReady(ctx context.Context, upstreamURL string) error {
	through, err := b.URL(upstreamURL)
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(through)
	if err != nil {
		return fmt.Errorf("pgbouncer: reading its URL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgbouncer: does not start: %w\n%s", err, b.log())
		case <-time.After(startPause):
		}
	}
}

// quoted is a value in a connection string of the configuration.
func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }
