// Package kill has the campaigns that kill: the processes that call, in the
// middle of their calls, and the server under load.
package kill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	processes = 6
	// workerConns is the size of a worker's pool, and atOnce how many calls it makes
	// at once.
	workerConns, atOnce = 3, 4
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
func Processes(ctx context.Context, l *lab.Lab, p lab.Params, s *score.Score) error {
	idle := 0
	err := s.Arms(func(withDedup bool) (score.Arm, error) {
		kills := p.Calls
		if !withDedup {
			kills = max(p.Calls/controlShare, 40)
		}
		a, unused, err := killProcesses(ctx, l, p, kills, withDedup)
		if withDedup {
			idle = unused
		}
		return a, err
	})
	s.Details["idle_kills"] = idle
	return err
}

// hello is the first line that a worker reads. Each further one is a key.
type hello struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
}

// done is a line that a worker writes: the answer to a key, or that there is none.
type done struct {
	Key   string `json:"key"`
	Run   int64  `json:"run"`
	Error string `json:"error,omitempty"`
}

// Work makes the calls that in names until it ends. It is what a worker process
// does until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	var h hello
	if err := lines.Decode(&h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	call, closePool, err := newCaller(ctx, h.URL, h.Dedup, workerConns)
	if err != nil {
		return err
	}
	defer closePool()
	var mu sync.Mutex
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		var key string
		if err := lines.Decode(&key); err != nil {
			return nil // the driver has gone
		}
		calls.Go(func() {
			answer := done{Key: key}
			var err error
			if answer.Run, err = call(ctx, key); err != nil {
				answer.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(answer) // nobody listens any more: the end of in is near
		})
	}
}

// newCaller returns a caller with a pool of its own.
func newCaller(ctx context.Context, url string, withDedup bool, conns int32) (lab.Caller, func(), error) {
	c, err := lab.OpenClient(ctx, url, conns, pgx.QueryExecModeCacheStatement, &dedup.Options{Retry: lab.Retry(100 * time.Millisecond)})
	switch {
	case err != nil:
		return nil, nil, err
	case withDedup:
		return c.Do, c.Pool.Close, nil
	}
	return func(ctx context.Context, key string) (int64, error) {
		return lab.RunNaively(ctx, c.Pool, 0, key)
	}, c.Pool.Close, nil
}

// killProcesses kills so many processes that were at work. idle counts the kills that met no call,
// which count as none.
func killProcesses(ctx context.Context, l *lab.Lab, p lab.Params, kills int, withDedup bool) (a score.Arm, idle int, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return a, 0, err
	}
	defer func() { _ = db.Drop(ctx) }()
	f := &fleet{hello: hello{URL: db.URL, Dedup: withDedup}, rng: rand.New(rand.NewPCG(p.Seed, 2)), ledger: lab.NewLedger()}
	for f.kills < kills {
		// Keys from before are not called again: their effects are no longer there to compare with.
		f.settled, f.until = f.minted, min(f.kills+settleKills, kills)
		err := f.kill(ctx)
		a.Calls, a.Faults = f.calls, map[string]int{"SIGKILL": f.kills}
		if err != nil {
			return a, f.idle, err
		}
		if a.Tally, err = f.ledger.Settle(ctx, db.Pool); err != nil {
			return a, f.idle, err
		}
		p.Sayf("%d of %d kills, %d calls: %v", f.kills, kills, f.calls, a.Tally)
	}
	return a, f.idle, nil
}

// fleet is what the workers have been given to do.
type fleet struct {
	hello  hello
	ledger *lab.Ledger
	until  int // so many kills, and then all that is open is answered

	mu                 sync.Mutex
	rng                *rand.Rand
	again              []string // keys without an answer
	minted             int
	settled            int // keys below were settled
	calls, kills, idle int
}

// kill has workers work, and kills them, until there were enough kills and every key is answered.
func (f *fleet) kill(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var places sync.WaitGroup
	for range processes {
		places.Go(func() {
			for more := true; more && ctx.Err() == nil; {
				var err error
				if more, err = f.life(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	places.Wait()
	return context.Cause(ctx)
}

// life is that of one process. It reports whether another one takes its place.
func (f *fleet) life(ctx context.Context) (more bool, err error) {
	open := map[string]bool{} // what it has not answered
	answers := make(chan done)
	over := make(chan struct{})
	w, err := process.Start(process.Command{Args: []string{WorkerCommand}}, f.hello, func(d done) {
		select {
		case answers <- d:
		case <-over:
		}
	})
	if err != nil {
		return false, err
	}
	defer w.Kill()
	defer close(over)
	give := func() {
		if key, ok := f.next(open); ok {
			open[key] = true
			_ = w.Send(key) // it may be dead: then its keys come again
		}
	}
	for range atOnce {
		give()
	}
	var end <-chan time.Time
	for len(open) > 0 || !f.enough() {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case d := <-answers:
			f.answered(d, open)
			if end == nil {
				end = time.After(f.lifetime())
			}
			give()
		case <-end:
			if end = nil; !f.enough() {
				f.end(w, answers, open)
				return true, nil
			}
		case <-w.Done():
			return false, fmt.Errorf("a worker ended by itself")
		}
	}
	return false, nil
}

// end kills a worker, whatever it is doing.
func (f *fleet) end(w *process.Process, answers <-chan done, open map[string]bool) {
	go w.Kill()
	for waiting := true; waiting; {
		select {
		case d := <-answers: // what it has written before
			f.answered(d, open)
		case <-w.Done():
			waiting = false
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(open) == 0 {
		f.idle++
	} else {
		f.kills++
	}
	f.calls += len(open)
	for key := range open {
		f.again = append(f.again, key)
	}
}

// next is another key for a worker, which others may have as well. There is none when enough were
// killed and every key is on its way.
func (f *fleet) next(open map[string]bool) (key string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.again) - 1
	switch {
	case last >= 0:
		key, f.again = f.again[last], f.again[:last]
	case f.kills >= f.until:
		return "", false
	case f.minted > f.settled && f.rng.IntN(3) == 0: // a twin of what is on its way
		key = fmt.Sprint(max(f.settled, f.minted-1-f.rng.IntN(processes*atOnce)))
	default:
		return f.mint(), true
	}
	if open[key] { // it is being asked already
		return f.mint(), true
	}
	return key, true
}

func (f *fleet) mint() string {
	f.minted++
	return fmt.Sprint(f.minted - 1)
}

func (f *fleet) answered(d done, open map[string]bool) {
	delete(open, d.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if d.Error != "" {
		f.again = append(f.again, d.Key)
		return
	}
	f.ledger.Answered(d.Key, d.Run)
}

func (f *fleet) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills >= f.until
}

func (f *fleet) lifetime() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.rng.Int64N(int64(longestLife)))
}
