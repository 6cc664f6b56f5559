package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/process"
)

// OpenFunc makes what a worker process serves, from its task. done is called when nothing is served any more.
type OpenFunc[Task any] func(context.Context, Task) (h http.Handler, done func() error, err error)

// WorkerCommand returns the hidden command that is a worker process. It must be a command of the root, under
// its own name.
func WorkerCommand[Task any](name string, open OpenFunc[Task]) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: "Serve a driver until its input ends", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C on a terminal goes to all processes. The driver decides when its workers end.
			signal.Ignore(os.Interrupt)
			return Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), open)
		},
	}
}

// Serve is what a worker process does. It reads its task from the first line of in, serves what open makes of it,
// writes the address to out, and goes on until in ends. The end of ctx, or of in, cancels the requests that are
// being served.
func Serve[Task any](ctx context.Context, in io.Reader, out io.Writer, open OpenFunc[Task]) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var task Task
	if err := json.NewDecoder(in).Decode(&task); err != nil {
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

// Worker is where one worker process after another serves. The zero value but for Command and Task has none yet.
type Worker struct {
	Command process.Command
	Task    any

	mu      sync.Mutex
	present *Server // or the last
	started int
	closed  bool
}

// Server is one process.
type Server struct {
	*process.Process
	announced chan struct{}
	addr      string
}

var (
	errClosed    = errors.New("the worker is closed")
	errNoAddress = errors.New("the process ended before it had an address")
	errBySelf    = errors.New("a worker process has ended by itself")
)

// Present returns the process that runs. It starts the first one, and another where the last was killed. Where
// that has ended by itself there is none: no fault does that.
func (w *Worker) Present() (*Server, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, errClosed
	case w.present == nil:
	case !w.present.Ended():
		return w.present, nil
	default:
		if exit, ok := errors.AsType[*exec.ExitError](w.present.Err()); !ok || exit.ExitCode() >= 0 { // no signal
			return nil, errors.Join(errBySelf, w.present.Err())
		}
	}
	s := &Server{announced: make(chan struct{})}
	var once sync.Once
	started, err := process.Start(w.Command, w.Task, func(addr string) {
		once.Do(func() {
			s.addr = addr
			close(s.announced)
		})
	})
	if err != nil {
		return nil, err
	}
	s.Process, w.present = started, s
	w.started++
	return s, nil
}

// Started is how many processes there have been.
func (w *Worker) Started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

// Running returns the present process, nil where none runs.
func (w *Worker) Running() *Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present == nil || w.present.Ended() {
		return nil
	}
	return w.present
}

// Kill ends the present process with SIGKILL, and returns when it is gone. It reports false where none runs. Nobody
// gets the process meanwhile.
func (w *Worker) Kill() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present == nil || w.present.Ended() {
		return false
	}
	w.present.Kill()
	return true
}

// Close ends the present process, by force where it does not end by itself within wait, and says how it has ended.
// No other is started.
func (w *Worker) Close(wait time.Duration) error {
	w.mu.Lock()
	w.closed = true
	last := w.present
	w.mu.Unlock()
	if last == nil {
		return nil
	}
	last.Close(wait)
	return last.Err()
}

// Addr is where the process is to be reached. The first call waits until it has written that.
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

// Fetch makes a request, and returns its answer when there is all of it.
func Fetch(ctx context.Context, web *http.Client, method, url string, header http.Header, body []byte) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		r.Header = header
	}
	response, err := web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is broken
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer: %w", err)
	}
	return response, answer, nil
}
