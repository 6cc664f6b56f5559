package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/process"
)

// Seat is where one process after another runs [Serve]. The next process starts on demand after a
// kill.
type Seat struct {
	Command process.Command
	Task    any

	mu      sync.Mutex // held while a process is killed and until it is gone
	process *Server    // the present one or the last
	started int
	closed  bool
}

// Server returns the running process, and starts one if there is none. A process that ended without
// a kill is a defect, and no other one follows it. None starts after [Seat.Close]: a request that
// is still under way would leave a process behind.
func (s *Seat) Server() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, Hopeless{errors.New("the place of the worker is closed")}
	}
	if s.process != nil {
		if !s.process.Ended() {
			return s.process, nil
		}
		end := s.process.Err()
		if exit, ok := errors.AsType[*exec.ExitError](end); !ok || exit.ExitCode() >= 0 { // not by a signal
			return nil, Hopeless{errors.Join(errors.New("a worker ended by itself"), end)}
		}
	}
	started, err := StartServer(s.Command, s.Task)
	if err != nil {
		return nil, Hopeless{fmt.Errorf("starting a worker: %w", err)}
	}
	s.process = started
	s.started++
	return started, nil
}

// Addr returns the address of the process of [Seat.Server].
func (s *Seat) Addr(ctx context.Context) (string, error) {
	server, err := s.Server()
	if err != nil {
		return "", err
	}
	return server.Addr(ctx)
}

// Kill kills the running process. It returns false if there is none.
func (s *Seat) Kill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.Ended() {
		return false
	}
	s.process.Kill()
	return true
}

// Close ends the running process by the end of its input, and kills it after wait.
func (s *Seat) Close(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.process != nil {
		s.process.Close(wait)
	}
}

// Started is the number of processes that were started.
func (s *Seat) Started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}
