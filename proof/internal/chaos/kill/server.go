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
func Servers(ctx context.Context, l *lab.Lab, p lab.Params, s *score.Score) error {
	return s.Arms(func(withDedup bool) (score.Arm, error) {
		kills := p.Calls
		if !withDedup {
			kills = max(p.Calls/controlShare, 5)
		}
		return killServer(ctx, l, p, kills, withDedup)
	})
}

func killServer(ctx context.Context, l *lab.Lab, p lab.Params, kills int, withDedup bool) (a score.Arm, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return a, err
	}
	defer func() { _ = db.Drop(ctx) }()
	calls, closePools, err := open(ctx, db.URL, withDedup)
	defer closePools()
	if err != nil {
		return a, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 3))
	ledger := lab.NewLedger()
	killed := 0
	for round := 0; killed < kills; round++ {
		load := startLoad(ctx, calls, ledger, round)
		for range min(settleServerKills, kills-killed) {
			err := wait(ctx, up(rng))
			if err == nil {
				err = l.Server.Kill()
			}
			if err == nil {
				killed++
				a.Fault("SIGKILL of the server", 1)
				err = l.Server.Restart(ctx)
			}
			if err != nil {
				load.abandon()
				load.stop()
				return a, fmt.Errorf("killing the server: %w", err)
			}
		}
		a.Calls += load.stop()
		db.Pool.Reset() // its connections are dead
		if a.Tally, err = ledger.Settle(ctx, db.Pool); err != nil {
			return a, err
		}
		p.Sayf("%d of %d kills, %d calls: %v", killed, kills, a.Calls, a.Tally)
	}
	return a, nil
}

// up is how long a server stays up.
func up(rng *rand.Rand) time.Duration {
	return shortestUp + time.Duration(rng.Int64N(int64(longestUp-shortestUp)))
}

// open opens the pools of a load.
func open(ctx context.Context, url string, withDedup bool) (calls []lab.Caller, closePools func(), err error) {
	var closing []func()
	closePools = func() {
		for _, closePool := range closing {
			closePool()
		}
	}
	for range pools {
		call, closePool, err := newCaller(ctx, url, withDedup, callers/pools)
		if err != nil {
			return nil, closePools, err
		}
		calls, closing = append(calls, call), append(closing, closePool)
	}
	return calls, closePools, nil
}

// load is callers that call one key after the other, two of them each at about
// the same time.
type load struct {
	ending  atomic.Bool
	abandon context.CancelFunc // ends calls that have no answer
	calls   atomic.Int64
	wg      sync.WaitGroup
}

func startLoad(ctx context.Context, calls []lab.Caller, ledger *lab.Ledger, round int) *load {
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
func (l *load) deliver(ctx context.Context, call lab.Caller, key string, ledger *lab.Ledger) {
	for {
		run, err := call(ctx, key)
		l.calls.Add(1)
		if err == nil {
			ledger.Answered(key, run)
			return
		}
		if !lab.Pause(ctx, pause) {
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
	lab.Pause(ctx, d)
	return ctx.Err()
}
