// Package redisserver finds and starts Redis for the benchmark: in PATH, or in
// the folder into which scripts/redis has unpacked Debian's package.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrAbsent is returned by [Start] when there is no Redis on this machine.
var ErrAbsent = errors.New("redis-server was found neither in PATH nor unpacked: `make redis` fetches Debian's package")

const (
	startWait  = 10 * time.Second
	startPause = 5 * time.Millisecond
)

// A Server is a Redis that runs.
type Server struct {
	Addr    string // host and port
	Version string

	dir   string // its working folder, in which it leaves nothing behind
	cmd   *exec.Cmd
	leash io.Closer       // the pipe on which its life depends
	log   strings.Builder // complete when done is closed
	done  chan struct{}   // closed when the program has ended
	err   error           // how
}

// Start starts a Redis, from PATH or from the folder of unpacked packages, and
// returns once it answers. It keeps everything in memory and nothing on disk,
// which is the fastest that it can be run.
func Start(ctx context.Context, folder string) (*Server, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("finding Redis: %w", err)
	}
	program, libraries, err := find(folder)
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{})}
	if s.dir, err = os.MkdirTemp("", "dedup-redis-"); err != nil {
		return nil, fmt.Errorf("starting Redis: %w", err)
	}
	if err := s.launch(program, libraries); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Redis: %w", err), os.RemoveAll(s.dir))
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Redis: %w", err), s.Stop())
	}
	return s, nil
}

// launch starts the program under a shell that ends it when its input ends: it
// does not outlive this process, however that ends.
func (s *Server) launch(program, libraries string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.cmd = exec.Command("/bin/sh", "-c", `"$@" & read _; kill -TERM $!; wait`, "sh", program,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", s.dir)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if libraries != "" {
		s.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	}
	if s.leash, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.done)
		s.err = s.cmd.Wait()
	}()
	return nil
}

func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		version, err := version(ctx, s.Addr)
		if err == nil {
			s.Version = version
			return nil
		}
		select {
		case <-s.done:
			return errors.New("it has ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer at %s: %w", s.Addr, err)
		case <-time.After(startPause):
		}
	}
}

// Stop ends the server and removes its folder. The error has the server's log.
func (s *Server) Stop() error {
	_ = s.leash.Close()
	<-s.done
	err := s.err
	if err != nil {
		err = fmt.Errorf("stopping Redis: %w\n%s", err, s.log.String())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// freePort returns a TCP port of 127.0.0.1 on which nothing listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choosing a port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
