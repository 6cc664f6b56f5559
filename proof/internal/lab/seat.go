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

// Seat is where one process after another runs [Serve]: the next one begins when somebody asks for it after the
// last one was killed.
type Seat struct {
	Command process.Command
	Task    any

	mu      sync.Mutex // is held while a process is killed and until it is gone
	process *Server    // the present one or the last
	started int
}

// Server returns the process that runs, and starts one where none does. A process that has ended by itself is a
// defect, behind which there is no further one.
func (s *Seat) Server() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		if !s.process.Ended() {
			return s.process, nil
		}
		end := s.process.Err()
		if exit, ok := errors.AsType[*exec.ExitError](end); !ok || exit.ExitCode() >= 0 { // no signal
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

// Addr is where the process is to be reached that [Seat.Server] returns.
func (s *Seat) Addr(ctx context.Context) (string, error) {
	server, err := s.Server()
	if err != nil {
		return "", err
	}
	return server.Addr(ctx)
}

// Kill kills the process that runs, and reports false where none does.
func (s *Seat) Kill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.Ended() {
		return false
	}
	s.process.Kill()
	return true
}

// Close ends the process that runs by the end of its input, and kills it where that takes longer than wait.
func (s *Seat) Close(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Close(wait)
	}
}

// Started is how many processes were started.
func (s *Seat) Started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}
