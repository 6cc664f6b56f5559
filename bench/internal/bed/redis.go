package bed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoRedis is returned by [Bed.Site] for a way that needs Redis where there is none on this machine.
var ErrNoRedis = errors.New("redis-server was found neither in PATH nor unpacked: `make redis` fetches Debian's package")

// A Redis is a server that runs.
type Redis struct {
	Addr    string // host and port
	Version string

	dir   string // its working folder, in which it leaves nothing behind
	cmd   *exec.Cmd
	leash io.Closer // the pipe on which its life depends
}

// startRedis starts a Redis, from PATH or from the folder into which scripts/redis
// has unpacked Debian's package, and returns once it accepts connections. It keeps
// everything in memory and nothing on disk, which is the fastest that it can be run.
func startRedis(ctx context.Context, folder string) (_ *Redis, err error) {
	program, libraries, err := findRedis(folder)
	if err != nil {
		return nil, err
	}
	s := &Redis{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting Redis: %w", err), os.RemoveAll(s.dir))
		}
	}()
	if s.dir, err = os.MkdirTemp("", "dedup-redis-"); err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Addr = free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	// The shell ends the program when its input ends: it does not outlive this
	// process, however that ends.
	s.cmd = exec.Command("/bin/sh", "-c", `"$@" & read _; kill -TERM $!; wait`, "sh", program,
		"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", s.dir)
	if libraries != "" {
		s.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	}
	if s.leash, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.leash.Close() })()
	return s, s.awaitReady(output)
}

// awaitReady reads the server's log until it says so, and discards the rest.
func (s *Redis) awaitReady(output io.Reader) error {
	var log strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(output, &log)); lines.Scan(); {
		if _, version, found := strings.Cut(lines.Text(), "Redis version="); found {
			s.Version, _, _ = strings.Cut(version, ",")
		}
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return nil
		}
	}
	return fmt.Errorf("it has ended: %w\n%s", s.cmd.Wait(), log.String())
}

// stop ends the server and removes its folder.
func (s *Redis) stop() error {
	_ = s.leash.Close()
	return errors.Join(s.cmd.Wait(), os.RemoveAll(s.dir))
}

// findRedis returns the program and, for one in a folder of unpacked packages, where
// its libraries are.
func findRedis(folder string) (program, libraries string, err error) {
	if program, err := exec.LookPath("redis-server"); err == nil {
		return program, "", nil
	}
	if program, err = filepath.Abs(filepath.Join(folder, "usr/bin/redis-server")); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", "", ErrNoRedis
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(program), "../lib/*-linux-gnu"))
	return program, strings.Join(found, ":"), err
}
