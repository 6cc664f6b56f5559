// Package kill has the campaigns that kill: the processes that call, in the
// middle of their calls, and the server under load.
package kill

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	processes = 6
	// longestLife is how long a process lives at most before it is killed, from
	// when it has answered for the first time.
	longestLife = 40 * time.Millisecond
	// settleKills are the kills after which the books are settled.
	settleKills = 100
	// controlShare is the control arm's share of the kills.
	controlShare = 10
)

// WorkerCommand is the name of the hidden command that is a worker process.
const WorkerCommand = "chaos-worker"

// Processes kills Params.Calls processes in the middle of their calls.
func Processes(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		f := &fleet{kills: p.Calls}
		if !withDedup {
			f.kills = max(p.Calls/controlShare, 40)
		}
		a, err := f.run(ctx, l, p, withDedup)
		if withDedup {
			s.Details["idle_kills"] = f.idle.Load()
		}
		return a, err
	})
}

// task is that of a worker.
type task struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
}

// answer is that to a key, or says that there is none.
type answer struct {
	Run   int64  `json:"run"`
	Error string `json:"error,omitempty"`
}

// Work calls the effect of each key that it is asked for over HTTP. It is what a worker process does
// until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	return lab.Serve(ctx, in, out, func(ctx context.Context, t task) (http.Handler, func(), error) {
		c, err := openClient(ctx, t.URL)
		if err != nil {
			return nil, nil, err
		}
		call := caller(t.Dedup)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var a answer
			var err error
			if a.Run, err = call(r.Context(), c, r.URL.Query().Get("key")); err != nil {
				a.Error = err.Error()
			}
			_ = json.NewEncoder(w).Encode(a) // who does not get it asks again
		}), c.Pool.Close, nil
	})
}

// fleet is the worker processes. A kill that met no call is idle, and counts as none.
type fleet struct {
	kills        int
	killed, idle atomic.Int64
	workers      []*worker
}

// run kills processes until there were enough kills.
func (f *fleet) run(ctx context.Context, l *lab.Lab, p lab.Params, withDedup bool) (a lab.Arm, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return a, err
	}
	defer func() { _ = db.Drop(ctx) }()
	defer f.stop()
	var places []place
	for i := range processes {
		w := &worker{
			task: task{URL: db.URL, Dedup: withDedup}, rng: rand.New(rand.NewPCG(p.Seed, uint64(i)+2)),
			web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}},
		}
		if err := w.start(); err != nil {
			return a, err
		}
		f.workers, places = append(f.workers, w), append(places, place{&lab.Client{}, w.call})
	}
	ledger := lab.NewLedger()
	for round := 0; int(f.killed.Load()) < f.kills; round++ {
		load := startLoad(ctx, places, ledger, round)
		err := f.kill(ctx, min(int(f.killed.Load())+settleKills, f.kills))
		if err != nil {
			load.abandon()
		}
		a.Calls += load.stop()
		a.Faults = map[string]int{"SIGKILL": int(f.killed.Load())}
		if err != nil {
			return a, err
		}
		if a.Tally, err = ledger.Settle(ctx, db.Pool); err != nil {
			return a, err
		}
		p.Sayf("%d of %d kills, %d calls: %v", f.killed.Load(), f.kills, a.Calls, a.Tally)
	}
	return a, nil
}

// kill kills the workers, all at their own times, until there were so many kills.
func (f *fleet) kill(ctx context.Context, until int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var killing sync.WaitGroup
	for _, w := range f.workers {
		killing.Go(func() {
			for int(f.killed.Load()) < until && ctx.Err() == nil {
				cut, err := w.replace(ctx)
				switch {
				case err != nil:
					cancel(err)
				case cut > 0:
					f.killed.Add(1)
				default:
					f.idle.Add(1)
				}
			}
		})
	}
	killing.Wait()
	return context.Cause(ctx)
}

func (f *fleet) stop() {
	for _, w := range f.workers {
		w.life.Load().Kill()
		w.web.CloseIdleConnections()
	}
}

// worker is one process after the other.
type worker struct {
	task task
	rng  *rand.Rand
	web  *http.Client
	life atomic.Pointer[life] // the present one
}

// life is that of one process.
type life struct {
	*lab.Server
	answered chan struct{} // has a value when it has answered
	calls    sync.RWMutex  // is held for reading by each call that is on its way
	cut      atomic.Int64  // calls that got no answer
}

func (w *worker) start() error {
	server, err := lab.StartServer(process.Command{Args: []string{WorkerCommand}}, w.task)
	if err == nil {
		w.life.Store(&life{Server: server, answered: make(chan struct{}, 1)})
	}
	return err
}

// replace kills the process at a random moment after it has answered, whatever it is doing, and starts
// another one. It returns how many calls that has cut.
func (w *worker) replace(ctx context.Context) (cut int, err error) {
	l := w.life.Load()
	select {
	case <-l.answered:
		lab.Pause(ctx, time.Duration(w.rng.Int64N(int64(longestLife))))
	case <-l.Done():
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case l.Ended():
		return 0, errors.New("a worker ended by itself")
	}
	l.Kill()
	l.calls.Lock() // each of them is cut
	defer l.calls.Unlock()
	return int(l.cut.Load()), w.start()
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
	a, err := w.ask(ctx, addr, key)
	switch {
	case err != nil:
		l.cut.Add(1)
		return 0, err
	case a.Error != "":
		return 0, errors.New(a.Error)
	}
	select {
	case l.answered <- struct{}{}:
	default:
	}
	return a.Run, nil
}

func (w *worker) ask(ctx context.Context, addr, key string) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/?key="+key, nil)
	if err != nil {
		return a, err
	}
	res, err := w.web.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	return a, json.NewDecoder(res.Body).Decode(&a)
}
