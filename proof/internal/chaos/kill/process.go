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

	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	processes = 6
	// longestLife bounds the life of a process after its first answer.
	longestLife = 40 * time.Millisecond
	// The books are settled after processKills kills.
	processKills = 100
)

const workerName = "chaos-worker"

// Processes kills Params.Calls processes in the middle of their calls.
func Processes(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (a lab.Arm, err error) {
		kills := p.Calls
		if !withDedup {
			kills = max(p.Calls/controlShare, 40)
		}
		db, err := l.Create(ctx)
		if err != nil {
			return a, err
		}
		defer func() { _ = db.Drop(ctx) }()
		f := &fleet{task: task{URL: db.URL, Dedup: withDedup}, rng: rand.New(rand.NewPCG(p.Seed, 2))}
		a, err = arm(ctx, p, f, "SIGKILL", kills, processKills, twins, withDedup)
		if withDedup {
			s.Details["idle_kills"] = f.idle
		}
		return a, err
	})
}

// task is a worker's task.
type task struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
}

// Worker returns the hidden command of a worker process. It calls the effect of each requested key.
func Worker() *cobra.Command { return lab.WorkerCommand(workerName, open) }

func open(ctx context.Context, t task) (http.Handler, func() error, error) {
	c, err := openClient(ctx, t.URL, atOnce, 0)
	if err != nil {
		return nil, nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, err := caller(t.Dedup)(r.Context(), c, r.URL.Query().Get("key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, strconv.FormatInt(run, 10)) // a caller without the answer asks again
	}), c.Close, nil
}

// fleet is the worker processes.
type fleet struct {
	task    task
	rng     *rand.Rand
	workers []*worker
	next    int
	idle    int // kills between two calls
}

func (f *fleet) ready(context.Context) (url string, err error) { return f.task.URL, nil }

func (f *fleet) places(context.Context, string, bool) (at []place, done func(), err error) {
	done = func() {
		for _, w := range f.workers {
			w.seat.Kill()
			w.web.CloseIdleConnections()
		}
	}
	f.workers = nil
	for range processes {
		w := &worker{web: &http.Client{Transport: &http.Transport{}}, answered: make(chan struct{}, 1)}
		w.seat.Command.Args, w.seat.Task = []string{workerName}, f.task
		f.workers, at = append(f.workers, w), append(at, place{&lab.Client{}, w.call})
	}
	return at, done, nil
}

// die kills processes in turn until one dies in the middle of a call.
func (f *fleet) die(ctx context.Context) error {
	for {
		w := f.workers[f.next%processes]
		f.next++
		server, err := w.seat.Server()
		if err != nil {
			return err
		}
		select {
		case <-w.answered:
		case <-server.Done():
			return errors.New("a worker ended by itself")
		case <-ctx.Done():
		}
		if err := wait(ctx, f.rng, 0, longestLife); err != nil {
			return err
		}
		w.seat.Kill()
		if w.wasCut() {
			return nil
		}
		f.idle++
	}
}

// worker is a seat for one process after the other.
type worker struct {
	seat     lab.Seat
	web      *http.Client
	answered chan struct{} // has a value after an answer
	calls    sync.RWMutex  // each running call holds it for reading
	cut      atomic.Bool   // a call got no answer
}

// wasCut waits for the calls of the killed process and reports whether one was cut.
func (w *worker) wasCut() bool {
	w.calls.Lock()
	defer w.calls.Unlock()
	select {
	case <-w.answered: // from the killed process
	default:
	}
	return w.cut.Swap(false)
}

// call is a [lab.Caller]: it asks the running process.
func (w *worker) call(ctx context.Context, _ *lab.Client, key string) (int64, error) {
	server, err := w.seat.Server()
	if err != nil {
		return 0, err
	}
	addr, err := server.Addr(ctx)
	if err != nil {
		return 0, err
	}
	w.calls.RLock()
	defer w.calls.RUnlock()
	if server.Ended() {
		return 0, errors.New("the process was killed")
	}
	res, answer, err := lab.Ask(ctx, w.web, http.MethodPost, "http://"+addr+"/?key="+key, nil, nil)
	switch {
	case err != nil:
		w.cut.Store(true)
		return 0, err
	case res.StatusCode != http.StatusOK:
		return 0, errors.New(string(answer))
	}
	select {
	case w.answered <- struct{}{}:
	default:
	}
	return strconv.ParseInt(string(answer), 10, 64)
}
