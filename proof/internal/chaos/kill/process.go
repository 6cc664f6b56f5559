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
)

// WorkerCommand is the name of the hidden command that is a worker process.
const WorkerCommand = "chaos-worker"

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

// task is that of a worker.
type task struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
}

// Work calls the effect of each key that it is asked for over HTTP. It is what a worker process does
// until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	return lab.Serve(ctx, in, out, func(ctx context.Context, t task) (http.Handler, func(), error) {
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
			_, _ = io.WriteString(w, strconv.FormatInt(run, 10)) // who does not get it asks again
		}), c.Pool.Close, nil
	})
}

// fleet is the worker processes.
type fleet struct {
	task    task
	rng     *rand.Rand
	workers []*worker
	next    int
	idle    int // kills that met no call
}

func (f *fleet) ready(context.Context) (url string, err error) { return f.task.URL, nil }

func (f *fleet) places(context.Context, string, bool) (at []place, done func(), err error) {
	done = func() {
		for _, w := range f.workers {
			w.life.Load().Kill()
			w.web.CloseIdleConnections()
		}
	}
	f.workers = nil
	for range processes {
		w := &worker{web: &http.Client{Transport: &http.Transport{}}}
		if err := w.start(f.task); err != nil {
			done()
			return nil, nil, err
		}
		f.workers, at = append(f.workers, w), append(at, place{&lab.Client{}, w.call})
	}
	return at, done, nil
}

// die kills one process after the other until one was in the middle of a call.
func (f *fleet) die(ctx context.Context) error {
	for {
		w := f.workers[f.next%processes]
		f.next++
		l := w.life.Load()
		select {
		case <-l.answered:
		case <-l.Done():
			return errors.New("a worker ended by itself")
		case <-ctx.Done():
		}
		if err := wait(ctx, f.rng, 0, longestLife); err != nil {
			return err
		}
		l.Kill()
		l.calls.Lock() // each of them is cut
		cut := l.cut.Load()
		l.calls.Unlock()
		if err := w.start(f.task); err != nil || cut {
			return err
		}
		f.idle++
	}
}

// worker is one process after the other.
type worker struct {
	web  *http.Client
	life atomic.Pointer[life] // the present one
}

// life is that of one process.
type life struct {
	*lab.Server
	answered chan struct{} // has a value when it has answered
	calls    sync.RWMutex  // is held for reading by each call that is on its way
	cut      atomic.Bool   // a call got no answer
}

func (w *worker) start(t task) error {
	server, err := lab.StartServer(process.Command{Args: []string{WorkerCommand}}, t)
	if err == nil {
		w.life.Store(&life{Server: server, answered: make(chan struct{}, 1)})
	}
	return err
}

// call is a [lab.Caller]: it asks the present process.
func (w *worker) call(ctx context.Context, _ *lab.Client, key string) (int64, error) {
	l := w.life.Load()
	l.calls.RLock()
	defer l.calls.RUnlock()
	if l.Ended() {
		return 0, errors.New("the process was killed")
	}
	addr, err := l.Addr(ctx)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/?key="+key, nil)
	if err != nil {
		return 0, err
	}
	status, answer, err := w.ask(r)
	switch {
	case err != nil:
		l.cut.Store(true)
		return 0, err
	case status != http.StatusOK:
		return 0, errors.New(answer)
	}
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return strconv.ParseInt(answer, 10, 64)
}

// ask returns the answer to a request when there is all of it.
func (w *worker) ask(r *http.Request) (status int, answer string, err error) {
	res, err := w.web.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
