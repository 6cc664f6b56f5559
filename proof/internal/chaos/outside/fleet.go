package outside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// workers is how many processes an arm has. Each calls every operation.
const workers = 2

// tries is how often a worker calls an operation that it gets no answer of, under faults and in the end.
const tries, lastTries = 3, 100

// worker keeps a process alive, and has it call operations.
type worker struct {
	hello hello
	n     int
	books *books
	rng   *rand.Rand
	calm  func() bool
	most  int // calls at once
	tries int

	todo  []int
	open  map[int]bool
	tried map[int]int

	called   chan struct{} // closed when every operation was called
	uncalled bool          // it is still open
	done     chan error    // how it ended

	mu      sync.Mutex
	process *process.Process // the present one
	leaving bool
}

func (w *worker) start(ctx context.Context) {
	w.open, w.tried = map[int]bool{}, map[int]int{}
	w.called, w.uncalled, w.done = make(chan struct{}), true, make(chan error, 1)
	go func() { w.done <- w.run(ctx) }()
}

// leave lets the process end when it has answered what it was asked.
func (w *worker) leave() error {
	w.mu.Lock()
	w.leaving = true
	p := w.process
	w.mu.Unlock()
	if p != nil {
		p.Close(lab.Patience)
	}
	return <-w.done
}

func (w *worker) run(ctx context.Context) error {
	for {
		killed, err := w.live(ctx)
		if err != nil || !killed {
			return err
		}
		for op := range w.open {
			w.todo = append(w.todo, op)
		}
		clear(w.open)
	}
}

// live is the life of one process.
func (w *worker) live(ctx context.Context) (killed bool, err error) {
	w.hello.Seed++
	reports, over := make(chan report), make(chan struct{})
	defer close(over)
	p, err := process.Start(process.Command{Args: []string{WorkerCommand}}, w.hello, func(r report) {
		select {
		case reports <- r:
		case <-over:
		}
	})
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	w.process = p
	leaving := w.leaving
	w.mu.Unlock()
	if leaving {
		go p.Close(lab.Patience)
	}
	w.give()
	for ended := ctx.Done(); ; {
		select {
		case r := <-reports:
			if err := w.reported(ctx, r, &killed); err != nil {
				go p.Kill()
				return false, err
			}
		case <-ended:
			ended = nil
			go p.Kill()
		case <-p.Done():
			switch {
			case ctx.Err() != nil:
				return false, context.Cause(ctx)
			case !killed && p.Err() != nil:
				return false, fmt.Errorf("worker %d ended by itself: %w", w.n, p.Err())
			}
			return killed, nil
		}
	}
}

// reported takes a report. One that asks for it has the process killed or halted.
func (w *worker) reported(ctx context.Context, r report, killed *bool) error {
	switch {
	case r.Op > 0:
		w.answered(r)
	case r.Ask == "":
		w.books.count(w.books.steps, r.Step)
	case *killed:
	case w.calm():
		w.send(order{Go: r.N})
	case r.Ask == askKill:
		*killed = true
		go w.process.Kill() // which waits until its last report was taken
		w.books.count(w.books.kills, r.Step)
	default: // the step that has asked for it goes on after that
		if err := w.process.Signal(signalHalt); err != nil {
			return fmt.Errorf("halting a worker: %w", err)
		}
		w.books.count(w.books.pauses, r.Step)
		lab.Pause(ctx, leases(shortestPause+w.rng.Float64()*(longestPause-shortestPause), w.hello.Lease))
		w.send(order{Go: r.N})
		return w.process.Signal(signalResume)
	}
	return nil
}

func (w *worker) answered(r report) {
	w.books.answered(r)
	if !w.open[r.Op] {
		return
	}
	delete(w.open, r.Op)
	if r.Outcome == unsettled {
		if w.tried[r.Op]++; w.tried[r.Op] < w.tries {
			w.todo = append(w.todo, r.Op)
		}
	}
	w.give()
}

// give gives the process more to do.
func (w *worker) give() {
	for len(w.open) < w.most && len(w.todo) > 0 {
		op := w.todo[0]
		w.todo = w.todo[1:]
		w.open[op] = true
		w.send(order{Op: op, Try: w.tried[op]})
	}
	if len(w.open) == 0 && w.uncalled {
		close(w.called)
		w.uncalled = false
	}
}

// send writes a line. The process may be dead: then its operations are called again.
func (w *worker) send(o order) { _ = w.process.Send(o) }

// shuffled are the operations in a worker's own order.
func shuffled(ops int, rng *rand.Rand) []int {
	order := rng.Perm(ops)
	for i := range order {
		order[i]++
	}
	return slices.Clip(order)
}

// callingLimit is longer than an arm's calls take.
const callingLimit = 3 * lab.Patience

// awaitCalled waits until every worker has called every operation.
func awaitCalled(ctx context.Context, all []*worker) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callingLimit, errors.New("the calls do not end"))
	defer cancel()
	for _, w := range all {
		select {
		case <-w.called:
		case err := <-w.done:
			w.done <- err
			return errors.Join(errors.New("a worker has ended"), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
