package kill

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
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
func Processes(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "kill-process", Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}}
	c, err := killProcesses(ctx, l, p, p.Calls, true)
	s.Calls, s.Faults, s.Tally = c.calls, c.kills, c.tally
	s.FaultsByKind["SIGKILL"] = c.kills
	s.Details = map[string]any{"idle_kills": c.idle}
	if err != nil {
		return s, err
	}
	c, err = killProcesses(ctx, l, p, max(p.Calls/controlShare, 40), false)
	s.ControlCalls, s.ControlFaults, s.Control = c.calls, c.kills, c.tally
	return s, err
}

type counts struct {
	calls, kills int
	idle         int // kills that met no call, which count as none
	tally        score.Tally
}

// killProcesses kills so many processes that were at work.
func killProcesses(ctx context.Context, l *lab.Lab, p lab.Params, kills int, withDedup bool) (c counts, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return c, err
	}
	defer func() { _ = db.Drop(ctx) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	f := &fleet{hello: hello{URL: db.URL, Dedup: withDedup}, rng: rand.New(rand.NewPCG(p.Seed, 2)), events: make(chan event), ledger: lab.NewLedger()}
	for i := range processes {
		w, err := f.start(ctx, i)
		if err != nil {
			return c, err
		}
		f.workers = append(f.workers, w)
	}
	defer f.stop()
	for c.kills < kills {
		if err := f.next(ctx, &c); err != nil {
			return c, err
		}
		if c.kills > 0 && c.kills%settleKills == 0 && f.settleAt != c.kills {
			f.settleAt = c.kills
			if err := f.drain(ctx, &c); err != nil {
				return c, err
			}
			if c.tally, err = f.ledger.Settle(ctx, db.Pool); err != nil {
				return c, err
			}
			f.resume()
			p.Sayf("%d of %d kills, %d calls: %d duplicates, %d lost, %d differing", c.kills, kills, c.calls, c.tally.Duplicates, c.tally.Lost, c.tally.Differing)
		}
	}
	if err := f.drain(ctx, &c); err != nil {
		return c, err
	}
	c.tally, err = f.ledger.Settle(ctx, db.Pool)
	return c, err
}

// fleet is the workers, and what they have been given to do.
type fleet struct {
	hello    hello
	rng      *rand.Rand
	events   chan event
	workers  []*worker
	ledger   *lab.Ledger
	again    []string // keys whose process was killed
	minted   int
	settled  int // keys below were settled
	settleAt int
}

// worker is a process.
type worker struct {
	n     int
	cmd   *exec.Cmd
	in    io.WriteCloser
	open  map[string]bool // what it has not answered
	life  *time.Timer
	ended chan struct{} // closed when its output has ended
}

// event is that a worker has answered, that its time has come, or that it ended.
type event struct {
	w      *worker
	answer *done
	die    bool
}

func (f *fleet) start(ctx context.Context, n int) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{n: n, cmd: exec.CommandContext(ctx, self, WorkerCommand), open: map[string]bool{}, ended: make(chan struct{})}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var d done
			if json.Unmarshal(lines.Bytes(), &d) != nil {
				return // the rest of a line that was cut
			}
			select {
			case f.events <- event{w: w, answer: &d}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := json.NewEncoder(w.in).Encode(f.hello); err != nil {
		return nil, fmt.Errorf("writing to a worker: %w", err)
	}
	for range atOnce {
		f.give(w)
	}
	return w, nil
}

// give gives a worker another key, which others may have as well.
func (f *fleet) give(w *worker) {
	var key string
	switch last := len(f.again) - 1; {
	case last >= 0:
		key, f.again = f.again[last], f.again[:last]
	case f.minted > f.settled && f.rng.IntN(3) == 0: // a twin of what is on its way
		key = fmt.Sprint(max(f.settled, f.minted-1-f.rng.IntN(processes*atOnce)))
	default:
		key = fmt.Sprint(f.minted)
		f.minted++
	}
	if w.open[key] {
		key = fmt.Sprint(f.minted)
		f.minted++
	}
	w.open[key] = true
	_, _ = io.WriteString(w.in, key+"\n") // it may be dead: then its keys come again
}

// next takes the next event.
func (f *fleet) next(ctx context.Context, c *counts) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case e := <-f.events:
		w := e.w
		if f.workers[w.n] != w {
			return nil // of one that has been killed
		}
		if e.die {
			return f.kill(ctx, w, c)
		}
		f.answered(w, e.answer, c)
		if w.life == nil {
			w.life = time.AfterFunc(time.Duration(f.rng.Int64N(int64(longestLife))), func() {
				select {
				case f.events <- event{w: w, die: true}:
				case <-ctx.Done():
				}
			})
		}
		f.give(w)
	}
	return nil
}

func (f *fleet) answered(w *worker, d *done, c *counts) {
	c.calls++
	delete(w.open, d.Key)
	if d.Error != "" {
		f.again = append(f.again, d.Key)
		return
	}
	f.ledger.Answered(d.Key, d.Run)
}

// kill kills a worker, whatever it is doing, and starts another in its place.
func (f *fleet) kill(ctx context.Context, w *worker, c *counts) error {
	if err := w.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing a worker: %w", err)
	}
	f.workers[w.n] = nil
	for waiting := true; waiting; {
		select {
		case e := <-f.events: // what it and the others have written before
			if e.answer != nil {
				f.answered(e.w, e.answer, c)
				if f.workers[e.w.n] == e.w {
					f.give(e.w)
				}
			} else if e.die && f.workers[e.w.n] == e.w {
				e.w.life = nil // its time comes again
			}
		case <-w.ended:
			waiting = false
		}
	}
	_ = w.cmd.Wait()
	if len(w.open) == 0 {
		c.idle++
	} else {
		c.kills++
	}
	c.calls += len(w.open)
	for key := range w.open {
		f.again = append(f.again, key)
	}
	started, err := f.start(ctx, w.n)
	if err != nil {
		return err
	}
	f.workers[w.n] = started
	return nil
}

// drain waits for the answers to all that is on its way, so that every key is
// answered when the books are settled.
func (f *fleet) drain(ctx context.Context, c *counts) error {
	for {
		open := len(f.again)
		for _, w := range f.workers {
			open += len(w.open)
		}
		if open == 0 {
			break
		}
		for _, w := range f.workers {
			for len(f.again) > 0 && len(w.open) < atOnce {
				f.giveAgain(w)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-f.events:
			if e.answer != nil {
				f.answered(e.w, e.answer, c)
			} else if e.die {
				e.w.life = nil
			}
		}
	}
	return nil
}

// resume goes on after the books were settled. Keys from before are not called
// again: their effects are no longer there to compare with.
func (f *fleet) resume() {
	f.settled = f.minted
	for _, w := range f.workers {
		for range atOnce {
			f.give(w)
		}
	}
}

func (f *fleet) giveAgain(w *worker) {
	last := len(f.again) - 1
	key := f.again[last]
	f.again = f.again[:last]
	if w.open[key] {
		return // it is being asked again already
	}
	w.open[key] = true
	_, _ = io.WriteString(w.in, key+"\n")
}

// stop ends the workers.
func (f *fleet) stop() {
	for _, w := range f.workers {
		if w == nil {
			continue
		}
		if w.life != nil {
			w.life.Stop()
		}
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	}
}
