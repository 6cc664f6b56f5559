package reissue

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// fleet is the two servers.
type fleet struct {
	hello hello

	mu      sync.Mutex
	servers [2]*server
}

type server struct {
	cmd  *exec.Cmd
	in   io.Closer
	addr string
}

func startFleet(ctx context.Context, h hello) (*fleet, error) {
	f := &fleet{hello: h}
	for i := range f.servers {
		var err error
		if f.servers[i], err = f.start(ctx, i); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// start starts server i, one of which leaves calls running whose stream has ended.
func (f *fleet) start(ctx context.Context, i int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.CommandContext(ctx, self, ServerCommand)}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	h := f.hello
	h.Cancels = i == 0
	if err := json.NewEncoder(in).Encode(h); err != nil {
		return nil, fmt.Errorf("writing to a server: %w", err)
	}
	if s.addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("reading a server's address: %w", err)
	}
	s.addr = strings.TrimSpace(s.addr)
	return s, nil
}

// addr is where server i is to be reached now.
func (f *fleet) addr(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servers[i].addr
}

// kill kills server i, whatever it is doing, and starts another in its place.
func (f *fleet) kill(ctx context.Context, i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers[i].end()
	started, err := f.start(ctx, i)
	if err != nil {
		return err
	}
	f.servers[i] = started
	return nil
}

func (f *fleet) stop() {
	for _, s := range f.servers {
		if s != nil {
			s.end()
		}
	}
}

func (s *server) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = s.in.Close()
}
