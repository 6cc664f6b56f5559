package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// workers is how many processes an arm has. Each calls every operation.
const workers = 2

// tries is how often a worker calls an operation that it gets no answer of.
const tries = 3

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
	in      io.WriteCloser
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
	if w.in != nil {
		_ = w.in.Close()
	}
	w.mu.Unlock()
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
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self, WorkerCommand)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("starting a worker: %w", err)
	}
	w.hello.Seed++
	w.mu.Lock()
	w.in = in
	w.write(w.hello)
	leaving := w.leaving
	w.mu.Unlock()
	if leaving {
		_ = in.Close()
	}
	w.give()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			break // the rest of a line that was cut
		}
		switch {
		case r.Op > 0:
			w.answered(r)
		case r.Ask == "":
			w.books.count(w.books.steps, r.Step)
		case killed:
		case w.calm():
			w.send(order{Go: r.N})
		case r.Ask == askKill:
			if err := cmd.Process.Kill(); err != nil {
				return false, fmt.Errorf("killing a worker: %w", err)
			}
			killed = true
			w.books.count(w.books.kills, r.Step)
		default:
			if err := w.pause(ctx, cmd.Process, r); err != nil {
				return false, err
			}
		}
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	switch {
	case killed:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, fmt.Errorf("worker %d ended by itself: %w", w.n, err)
	}
	return false, nil
}

// pause halts the process. The step that has asked for it goes on after that.
func (w *worker) pause(ctx context.Context, p *os.Process, r report) error {
	if err := halt(p); err != nil {
		return fmt.Errorf("halting a worker: %w", err)
	}
	w.books.count(w.books.pauses, r.Step)
	_ = wait(ctx, leases(shortestPause+w.rng.Float64()*(longestPause-shortestPause), w.hello.Lease))
	w.send(order{Go: r.N})
	return resume(p)
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
		w.send(order{Op: op})
	}
	if len(w.open) == 0 && w.uncalled {
		close(w.called)
		w.uncalled = false
	}
}

func (w *worker) send(o order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(o)
}

// write writes a line. The process may be dead: then its operations are called again.
func (w *worker) write(line any) { _ = json.NewEncoder(w.in).Encode(line) }

// shuffled are the operations in a worker's own order.
func shuffled(ops int, rng *rand.Rand) []int {
	order := rng.Perm(ops)
	for i := range order {
		order[i]++
	}
	return slices.Clip(order)
}

// awaitCalled waits until every worker has called every operation.
func awaitCalled(ctx context.Context, all []*worker, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the calls do not end"))
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

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
