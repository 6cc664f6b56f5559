package pgserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	clusterUser = "postgres" // the superuser of a private server

	// Servers listen on ports from firstPort to below endPort. Systems take the local ports of
	// outgoing connections from 32768 upwards (Linux) or from 49152 upwards: one of those could
	// have a server's port when it is started, or started again.
	firstPort, endPort = 10_240, 32_768

	// portTries is how many ports are tried: another process may have one.
	portTries = 20

	// startWait bounds one start, recovery from a crash included.
	startWait = 2 * time.Minute

	// restartWait is how long a restart waits for its port, if another process
	// uses it in passing, and for the last processes of a server that died.
	restartWait = 10 * time.Second
)

// A cluster is the data of a private server and the process that serves it.
type cluster struct {
	programs programs
	settings []string
	account  *Account // runs the programs; nil means our own
	dir      string   // the temporary folder, with the data and the log
	group    int      // the process group of the programs, which the watchdog ends with this process
	release  func()   // ends the watchdog

	mu         sync.Mutex
	port       int         // fixed by the first start
	postmaster *postmaster // the last one; nil until the first start
}

// startPrivate makes a cluster and starts a server on it.
func startPrivate(ctx context.Context, p programs, opts *Options) (*Server, error) {
	return startCluster(ctx, p, opts, func(c *cluster) error {
		return c.run(ctx, "initdb", "--pgdata="+c.DataDir(), "--username="+clusterUser, "--auth=trust",
			"--encoding=UTF8", "--locale=C", "--no-sync")
	})
}

// startCluster makes a cluster, has fill make its data, and starts a server on it. What was made is
// removed if it fails.
func startCluster(ctx context.Context, p programs, opts *Options, fill func(*cluster) error) (*Server, error) {
	c, err := newCluster(p, opts)
	if err != nil {
		return nil, err
	}
	if err = fill(c); err == nil {
		err = c.firstLaunch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.remove(ctx))
	}
	return &Server{
		URL:     fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", clusterUser, c.port),
		Source:  fmt.Sprintf("PostgreSQL %s from %s, data in a temporary folder below %s", p.version, p.dir, filepath.Dir(c.dir)),
		cluster: c,
		stop:    c.remove,
	}, nil
}

// newCluster makes the temporary folder, owned by the account that will run the server.
func newCluster(p programs, opts *Options) (*cluster, error) {
	account, err := Unprivileged()
	if err != nil {
		return nil, err
	}
	c := &cluster{programs: p, settings: opts.settings(), account: account}
	if c.dir, err = os.MkdirTemp(tempRoot(opts.Durable), "dedup-pg-*"); err != nil {
		return nil, fmt.Errorf("making a folder for the data: %w", err)
	}
	if err = account.Own(c.dir); err == nil {
		c.group, c.release, err = startWatchdog(c.dir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

// run runs one of the programs to its end.
func (c *cluster) run(ctx context.Context, name string, args ...string) error {
	cmd := c.prepare(exec.CommandContext(ctx, filepath.Join(c.programs.dir, name), args...))
	cmd.WaitDelay = 5 * time.Second // its own children may hold the pipe
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w%s\n%s", name, err, c.accountHint(), tail(out))
	}
	return nil
}

// firstLaunch starts postgres on a free port. The cluster keeps that port.
func (c *cluster) firstLaunch(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range portTries {
		c.port = firstPort + rand.N(endPort-firstPort)
		if err = c.launch(ctx); err == nil || !isPortTaken(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// launch starts postgres on c.port and returns once it accepts connections.
func (c *cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the server's log: %w", err)
	}
	defer func() { _ = log.Close() }()

	cmd := c.prepare(exec.Command(filepath.Join(c.programs.dir, "postgres"), append([]string{
		"-D", c.DataDir(), "-p", strconv.Itoa(c.port),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=",
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
	}, c.settings...)...))
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startPostmaster(cmd)
	if err != nil {
		return fmt.Errorf("starting postgres: %w%s", err, c.accountHint())
	}
	if err := c.awaitReady(ctx, p); err != nil {
		text, _ := os.ReadFile(c.logPath())
		return errors.Join(fmt.Errorf("starting postgres: %w\n%s", err, tail(text)), p.stop(ctx))
	}
	c.postmaster = p
	return nil
}

// awaitReady returns once the postmaster accepts connections. It says so in the eighth line of
// postmaster.pid, whose first line is its process id.
func (c *cluster) awaitReady(ctx context.Context, p *postmaster) error {
	for {
		text, _ := os.ReadFile(filepath.Join(c.DataDir(), "postmaster.pid"))
		lines := strings.Split(string(text), "\n")
		if lines[0] == strconv.Itoa(p.cmd.Process.Pid) && len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w", p.err)
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// remove ends the server and removes its data.
func (c *cluster) remove(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster != nil {
		err = c.postmaster.stop(ctx)
	}
	c.release()
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Kill ends every process of the server with SIGKILL, as a crash would. The data stays for Restart.
// It does nothing for a server that does not run, and returns [ErrNotPrivate] for one that is not
// private.
func (c *cluster) Kill() error {
	if c == nil {
		return ErrNotPrivate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.postmaster.kill()
}

// Pause halts every process of the server with SIGSTOP, as a machine does that stands still, and
// Resume lets them go on. Both do nothing for a server that does not run, and return
// [ErrNotPrivate] for one that is not private.
func (c *cluster) Pause() error { return c.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (c *cluster) Resume() error { return c.signal(syscall.SIGCONT) }

func (c *cluster) signal(signal syscall.Signal) error {
	if c == nil {
		return ErrNotPrivate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.postmaster.signal(signal)
}

// Restart starts a server again that was killed, on its data and its port, and
// returns when it has recovered and accepts connections. A server that still
// runs is killed first. Cancelling ctx ends the wait and the server with it.
//
// It returns [ErrNotPrivate] for a server that is not private, an error after
// [Server.Stop], and otherwise errors that hold the end of the server's log.
func (c *cluster) Restart(ctx context.Context) error {
	if c == nil {
		return ErrNotPrivate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.postmaster.kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	if _, err := os.Stat(c.DataDir()); err != nil {
		return fmt.Errorf("the server was stopped: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, restartWait)
	defer cancel()
	for {
		// Another process may use the port in passing. Children of a postmaster that died
		// may need a moment to end, and until then their memory keeps a new one from starting.
		err := c.launch(ctx)
		if err == nil || !pause(waiting, 10*pollEvery) {
			return err
		}
	}
}

// PID returns the process id of a private server's postmaster, and 0 for any
// other server and while the server does not run.
func (c *cluster) PID() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.postmaster.ended() {
		return 0
	}
	return c.postmaster.cmd.Process.Pid
}

// prepare gives a program the account, the folder and the environment to run in:
// no PG variable of ours may reach it.
func (c *cluster) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = c.dir
	cmd.SysProcAttr = c.account.attributes(c.group)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	return cmd
}

// accountHint names the account that ran a failed program, if it is not this process's own.
func (c *cluster) accountHint() string {
	if c.account == nil {
		return ""
	}
	return fmt.Sprintf(" (as user %q, who must be allowed to enter %s and %s; TMPDIR moves the latter)",
		c.account.Name, c.programs.dir, filepath.Dir(c.dir))
}

// DataDir returns the data folder of a private server, and "" for any other.
func (c *cluster) DataDir() string {
	if c == nil {
		return ""
	}
	return filepath.Join(c.dir, "data")
}

func (c *cluster) logPath() string { return filepath.Join(c.dir, "log") }

// tail returns the last lines of a log.
func tail(log []byte) string {
	const most = 15
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// isPortTaken reports whether the server's log, in err, says so.
func isPortTaken(err error) bool {
	return strings.Contains(err.Error(), "could not create any TCP/IP sockets")
}
