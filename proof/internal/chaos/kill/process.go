package kill

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	processes = 6
	// longestLife is how long a process lives at least, and at most while others are not killed, from
	// when it has answered for the first time.
	longestLife = 40 * time.Millisecond
	// processKills are the kills after which the books are settled.
	processKills = 100

	workerName = "chaos-worker"
)

// Processes kills Params.Calls processes in the middle of their calls.
func Processes(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(ctx, l, p, controlShare, 40, func(ctx context.Context, t *lab.Trial) error {
		f := &fleet{url: t.URL, rng: rand.New(rand.NewPCG(p.Seed, 2))}
		err := arm(ctx, t, f, "SIGKILL", processKills, twins)
		if t.Way.Dedup() {
			s.Details["idle_kills"] = f.idle
		}
		return err
	})
}

// task is that of a worker.
type task struct {
	URL   string
	Dedup bool
}

// WorkerCommand returns the hidden command that calls the effect of each key that it is asked for.
func WorkerCommand() *cobra.Command {
	return lab.WorkerCommand(workerName, func(ctx context.Context, t task) (http.Handler, func() error, error) {
		c, err := openClient(ctx, t.URL, atOnce, 0)
		if err != nil {
			return nil, nil, err
		}
		way := lab.ByDo
		if !t.Dedup {
			way = lab.Plain
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			run, err := way.Call(r.Context(), c, r.URL.Query().Get("key"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, strconv.FormatInt(run, 10)) // who does not get it asks again
		}), c.Close, nil
	})
}

// fleet is the worker processes.
type fleet struct {
	url     string
	rng     *rand.Rand
	workers []*worker
	next    int
	idle    int // kills that met no call
}

func (f *fleet) ready(context.Context) (url string, err error) { return f.url, nil }

func (f *fleet) places(_ context.Context, _ string, way lab.Way) (at []place, err error) {
	f.workers = nil
	for range processes {
		w := &worker{web: &http.Client{Transport: &http.Transport{}}, answered: make(chan struct{}, 1)}
		w.Command, w.Task = process.Command{Args: []string{workerName}}, task{f.url, way.Dedup()}
		f.workers, at = append(f.workers, w), append(at, place{&lab.Client{}, w.call, w.end})
	}
	return at, nil
}

// die kills one process after the other until one was in the middle of a call.
func (f *fleet) die(ctx context.Context) error {
	for {
		w := f.workers[f.next%processes]
		f.next++
		present, err := w.Present()
		if err != nil {
			return err
		}
		select {
		case <-w.answered:
		case <-present.Done():
			return errors.New("a worker ended by itself")
		case <-ctx.Done():
		}
		if err := wait(ctx, f.rng, 0, longestLife); err != nil {
			return err
		}
		w.Kill()
		if w.wasCut() {
			return nil
		}
		f.idle++
	}
}

// worker is a process that is called.
type worker struct {
	lab.Worker
	web      *http.Client
	answered chan struct{} // has a value when the present process has answered
	calls    sync.RWMutex  // is held for reading by each call that is on its way
	cut      atomic.Bool   // a call got no answer
}

// wasCut reports whether a call of the process that was killed got no answer.
func (w *worker) wasCut() bool {
	w.calls.Lock()
	defer w.calls.Unlock()
	select {
	case <-w.answered:
	default:
	}
	return w.cut.Swap(false)
}

// call is a [lab.Caller]: it asks the present process.
func (w *worker) call(ctx context.Context, _ *lab.Client, key string) (int64, error) {
	w.calls.RLock()
	defer w.calls.RUnlock()
	present, err := w.Present()
	if err != nil {
		return 0, lab.Hopeless{Err: err}
	}
	addr, err := present.Addr(ctx)
	if err != nil {
		return 0, err
	}
	response, answer, err := lab.Fetch(ctx, w.web, http.MethodPost, "http://"+addr+"/?key="+key, nil, nil)
	switch {
	case err != nil:
		w.cut.Store(true)
		return 0, err
	case response.StatusCode != http.StatusOK:
		return 0, errors.New(string(answer))
	}
	select {
	case w.answered <- struct{}{}:
	default:
	}
	return strconv.ParseInt(string(answer), 10, 64)
}

func (w *worker) end() {
	_ = w.Close(0) // it is killed
	w.web.CloseIdleConnections()
}
