package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/process"
)

// Opener makes a handler from a task. done is called at the end.
type Opener[Task any] = func(context.Context, Task) (h http.Handler, done func() error, err error)

// WorkerCommand returns a hidden command that runs [Serve]. A campaign starts its own program with
// it.
func WorkerCommand[Task any](name string, open Opener[Task]) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Serve until killed, for another process of this program", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A terminal sends Ctrl-C to all processes. The process that started this one decides
			// when it ends.
			signal.Ignore(os.Interrupt)
			return Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), open)
		},
	}
}

// Serve runs a worker process that is called over HTTP. It reads its task from the first line of
// in, serves the handler that open makes, and writes the address to out. It goes on until in ends.
// The end of ctx or of in cancels the running requests.
func Serve[Task any](ctx context.Context, in io.Reader, out io.Writer, open Opener[Task]) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := json.NewDecoder(in)
	var task Task
	if err := lines.Decode(&task); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	handler, done, err := open(ctx, task)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err = json.NewEncoder(out).Encode(listener.Addr().String()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	cancel()
	_ = server.Close()
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serving: %w", end))
	}
	return err
}

// Server is a process that runs [Serve].
type Server struct {
	*process.Process
	announced chan struct{}
	addr      string
}

// StartServer starts a process with a task.
func StartServer(c process.Command, task any) (s *Server, err error) {
	s = &Server{announced: make(chan struct{})}
	var once sync.Once
	s.Process, err = process.Start(c, task, func(addr string) {
		once.Do(func() {
			s.addr = addr
			close(s.announced)
		})
	})
	return s, err
}

// errNoAddress is the error of a process that ended too early.
var errNoAddress = errors.New("the process ended before it had an address")

// Addr returns the address of the process. It waits until the process has written it.
func (s *Server) Addr(ctx context.Context) (string, error) {
	select {
	case <-s.announced:
		return s.addr, nil
	case <-s.Done():
		return "", errNoAddress
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
