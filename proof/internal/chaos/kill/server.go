package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	// callers call a server that is killed, through so many pools.
	callers, pools = 16, 4
	// shortestUp and longestUp bound the time between recovery and the next kill.
	shortestUp, longestUp = 20 * time.Millisecond, 250 * time.Millisecond
	// settleServerKills are the kills after which the books are settled.
	settleServerKills = 10
	// pause is how long a caller waits that got no answer.
	pause = 5 * time.Millisecond
)

// Servers kills the server Params.Calls times under load, each time with
// SIGKILL, and lets it recover. What was answered before must be there after.
func Servers(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "kill-server", Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}}
	c, err := killServer(ctx, l, p, p.Calls, true)
	s.Calls, s.Faults, s.Tally = c.calls, c.kills, c.tally
	s.FaultsByKind["SIGKILL of the server"] = c.kills
	if err != nil {
		return s, err
	}
	c, err = killServer(ctx, l, p, max(p.Calls/controlShare, 5), false)
	s.ControlCalls, s.ControlFaults, s.Control = c.calls, c.kills, c.tally
	return s, err
}

func killServer(ctx context.Context, l *lab.Lab, p lab.Params, kills int, withDedup bool) (c counts, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return c, err
	}
	defer func() { _ = db.Drop(ctx) }()
	calls := make([]caller, pools)
	for i := range calls {
		var closePool func()
		if calls[i], closePool, err = newCaller(ctx, db.URL, withDedup, callers/pools); err != nil {
			return c, err
		}
		defer closePool()
	}
	rng := rand.New(rand.NewPCG(p.Seed, 3))
	ledger := lab.NewLedger()
	for round := 0; c.kills < kills; round++ {
		load := startLoad(ctx, calls, ledger, round)
		for range min(settleServerKills, kills-c.kills) {
			if err := wait(ctx, shortestUp+time.Duration(rng.Int64N(int64(longestUp-shortestUp)))); err != nil {
				load.abandon()
				load.stop()
				return c, err
			}
			err := l.Server.Kill()
			if err == nil {
				c.kills++
				err = l.Server.Restart(ctx)
			}
			if err != nil {
				load.abandon()
				load.stop()
				return c, fmt.Errorf("killing the server: %w", err)
			}
		}
		c.calls += load.stop()
		db.Pool.Reset() // its connections are dead
		if c.tally, err = ledger.Settle(ctx, db.Pool); err != nil {
			return c, err
		}
		p.Sayf("%d of %d kills, %d calls: %d duplicates, %d lost, %d differing, %d unanswered",
			c.kills, kills, c.calls, c.tally.Duplicates, c.tally.Lost, c.tally.Differing, c.tally.Unanswered)
	}
	return c, nil
}

// load is callers that call one key after the other, two of them each at about
// the same time.
type load struct {
	ending  atomic.Bool
	abandon context.CancelFunc // ends calls that have no answer
	calls   atomic.Int64
	wg      sync.WaitGroup
}

func startLoad(ctx context.Context, calls []caller, ledger *lab.Ledger, round int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{abandon: cancel}
	for i := range callers {
		l.wg.Go(func() {
			for n := 0; !l.ending.Load() && ctx.Err() == nil; n++ {
				// The key of callers 2 and 3 is one, and they have different pools.
				l.deliver(ctx, calls[i%pools], fmt.Sprintf("%d-%d-%d", round, i/2, n), ledger)
			}
		})
	}
	return l
}

// deliver calls until there is an answer.
func (l *load) deliver(ctx context.Context, call caller, key string, ledger *lab.Ledger) {
	for {
		run, err := call(ctx, key)
		l.calls.Add(1)
		if err == nil {
			ledger.Answered(key, run)
			return
		}
		if wait(ctx, pause) != nil {
			ledger.Unanswered(key)
			return
		}
	}
}

// stop waits for the answers to what has been begun.
func (l *load) stop() int {
	l.ending.Store(true)
	l.wg.Wait()
	l.abandon()
	return int(l.calls.Load())
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
