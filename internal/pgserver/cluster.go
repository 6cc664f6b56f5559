package pgserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	clusterUser = "postgres" // the superuser of a private server

	// tempPattern names the temporary folders of private servers.
	tempPattern = "dedup-pg-*"

	// Servers listen on ports from firstPort to below endPort. Systems take the local ports of
	// outgoing connections from 32768 upwards (Linux) or from 49152 upwards: one of those could
	// have a server's port when it is started, or started again.
	firstPort, endPort = 10_240, 32_768

	// portTries is how many ports are tried: between choosing a port and listening on it another
	// process may take it.
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
	account  *account // runs the programs; nil means our own
	dir      string   // the temporary folder, with the data, the log and the owner's lock
	owner    *os.File // locked for as long as this process lives

	mu      sync.Mutex
	port    int      // fixed by the first start
	process *process // nil while the server does not run
	stopped bool     // the data is removed
}

// startPrivate makes a cluster and starts a server on it. What it made is
// removed if it fails.
func startPrivate(ctx context.Context, p programs, opts *Options) (*Server, error) {
	c, err := newCluster(p, opts)
	if err != nil {
		return nil, err
	}
	if err := c.create(ctx); err != nil {
		return nil, errors.Join(err, c.stop(ctx))
	}
	return c.server(), nil
}

// server is the handle of a cluster that has been started.
func (c *cluster) server() *Server {
	return &Server{
		URL: fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", clusterUser, c.port),
		Source: fmt.Sprintf("PostgreSQL %s from %s, data in a temporary folder below %s",
			c.programs.version, c.programs.dir, filepath.Dir(c.dir)),
		cluster: c,
		stop:    c.stop,
	}
}

// newCluster makes the temporary folder, owned by the account that will run the
// server, and removes those that dead processes left behind.
func newCluster(p programs, opts *Options) (*cluster, error) {
	account, err := unprivileged()
	if err != nil {
		return nil, err
	}
	root, durable := tempRoots()
	sweep(root)
	if durable != root {
		sweep(durable)
	}
	if opts.Durable {
		root = durable
	}
	dir, err := os.MkdirTemp(root, tempPattern)
	if err != nil {
		return nil, fmt.Errorf("making a folder for the data: %w", err)
	}
	c := &cluster{programs: p, settings: opts.settings(), account: account, dir: dir}
	if c.owner, err = lockOwner(dir); err == nil {
		err = account.own(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a folder for the data: %w", err), c.remove())
	}
	return c, nil
}

// create runs initdb and the first start.
func (c *cluster) create(ctx context.Context) error {
	if err := c.initdb(ctx); err != nil {
		return err
	}
	return c.firstLaunch(ctx)
}

// firstLaunch starts postgres on a port that is free, which it keeps.
func (c *cluster) firstLaunch(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.port = port
		err = c.launch(ctx)
		if err == nil || try == portTries || !isPortTaken(err) || ctx.Err() != nil {
			return err
		}
	}
}

// initdb fills the data folder.
func (c *cluster) initdb(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, program(c.programs.dir, "initdb"),
		"--pgdata="+c.dataDir(), "--username="+clusterUser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = quitWait // initdb's own children may hold the pipe
	p, err := startProcess(c.prepare(cmd))
	if err == nil {
		<-p.done
		err = p.err
	}
	if err != nil {
		return fmt.Errorf("initdb: %w%s\n%s", err, c.accountHint(), tail(out.String()))
	}
	return nil
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

	args := []string{"-D", c.dataDir(), "-p", strconv.Itoa(c.port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=",
		"logging_collector=off",
		"log_destination=stderr",
	}, c.settings...) {
		args = append(args, "-c", setting)
	}
	cmd := c.prepare(exec.Command(program(c.programs.dir, "postgres"), args...))
	cmd.Stdout, cmd.Stderr = log, log

	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("starting postgres: %w%s", err, c.accountHint())
	}
	if err := c.awaitReady(ctx, p); err != nil {
		p.shutdown(context.WithoutCancel(ctx), 0)
		return fmt.Errorf("starting postgres: %w\n%s", err, tail(c.log()))
	}
	c.process = p
	return nil
}

// awaitReady returns once the process p accepts connections. A server that
// answers on the port with other data is not ours: ours will end with an error.
func (c *cluster) awaitReady(ctx context.Context, p *process) error {
	dsn := fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", clusterUser, c.port)
	for {
		ours, err := c.servedAt(ctx, dsn)
		if ours {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w", p.err)
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// servedAt reports whether the server at the URL serves this cluster's data.
func (c *cluster) servedAt(ctx context.Context, dsn string) (bool, error) {
	conn, err := dial(ctx, dsn)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		return false, err
	}
	theirs, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	ours, err := os.Stat(c.dataDir())
	return err == nil && os.SameFile(theirs, ours), err
}

// stop ends the server and removes its data.
func (c *cluster) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.process != nil {
		c.process.shutdown(ctx, shutdownWait)
		c.process = nil
	}
	c.stopped = true
	return c.remove()
}

// kill ends every process of the server as a crash would.
func (c *cluster) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killLocked()
}

func (c *cluster) killLocked() error {
	if c.process == nil {
		return nil
	}
	if err := c.process.killAll(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	c.process = nil
	return nil
}

// restart starts the server again on the same data and port.
func (c *cluster) restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.stopped {
		return ErrStopped
	}
	if err := c.killLocked(); err != nil {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, restartWait)
	defer cancel()
	for !portIsFree(c.port) && pause(waitCtx, pollEvery) {
	}
	for {
		// Children of a postmaster that died by other hands than ours, or while it
		// was making them, end by themselves, and until then their memory keeps a
		// new one from starting.
		err := c.launch(ctx)
		if err == nil || !pause(waitCtx, 10*pollEvery) {
			return err
		}
	}
}

// pid returns the postmaster's process id, and 0 while there is none.
func (c *cluster) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || c.process.ended() {
		return 0
	}
	return c.process.cmd.Process.Pid
}

// prepare gives a program the account, the folder and the environment to run in:
// no PG variable of ours may reach it.
func (c *cluster) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir = c.dir
	cmd.SysProcAttr = c.account.attributes()
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	return cmd
}

// accountHint says which account ran a program that failed, where it is not
// our own.
func (c *cluster) accountHint() string {
	if c.account == nil {
		return ""
	}
	return fmt.Sprintf(" (as user %q, who must be allowed to enter %s and %s; TMPDIR moves the latter)",
		c.account.name, c.programs.dir, filepath.Dir(c.dir))
}

// remove deletes the temporary folder and lets go of its lock.
func (c *cluster) remove() error {
	err := os.RemoveAll(c.dir)
	if c.owner != nil {
		_ = c.owner.Close()
		c.owner = nil
	}
	if err != nil {
		return fmt.Errorf("removing the server's data: %w", err)
	}
	return nil
}

func (c *cluster) dataDir() string { return filepath.Join(c.dir, "data") }
func (c *cluster) logPath() string { return filepath.Join(c.dir, "log") }

// log returns the server's log.
func (c *cluster) log() string {
	text, err := os.ReadFile(c.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// tail returns the last lines of a log.
func tail(log string) string {
	const most = 15
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// isPortTaken reports whether the server's log, in err, says so.
func isPortTaken(err error) bool {
	return strings.Contains(err.Error(), "could not create any TCP/IP sockets")
}

// freePort returns a TCP port of 127.0.0.1 on which nothing listens.
func freePort() (int, error) {
	for range portTries {
		if port := firstPort + rand.N(endPort-firstPort); portIsFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("choosing a port: none of %d between %d and %d is free", portTries, firstPort, endPort)
}

// portIsFree reports whether we could listen on the port.
func portIsFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
