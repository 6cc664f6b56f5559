package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// shortestUp and longestUp bound the time between recovery and the next kill.
	shortestUp, longestUp = 20 * time.Millisecond, 250 * time.Millisecond
	// settleServerKills are the kills after which the books are settled.
	settleServerKills = 10
)

// Servers kills the server Params.Calls times under load, each time with
// SIGKILL, and lets it recover. What was answered before must be there after.
func Servers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		kills := p.Calls
		if !withDedup {
			kills = max(p.Calls/controlShare, 5)
		}
		return killServer(ctx, l, p, kills, withDedup)
	})
}

func killServer(ctx context.Context, l *lab.Lab, p lab.Params, kills int, withDedup bool) (a lab.Arm, err error) {
	db, err := l.Create(ctx)
	if err != nil {
		return a, err
	}
	defer func() { _ = db.Drop(ctx) }()
	places, closePools, err := open(ctx, db.URL, withDedup)
	defer closePools()
	if err != nil {
		return a, err
	}
	rng := rand.New(rand.NewPCG(p.Seed, 3))
	ledger := lab.NewLedger()
	killed := 0
	for round := 0; killed < kills; round++ {
		load := startLoad(ctx, places, ledger, round)
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

func wait(ctx context.Context, d time.Duration) error {
	lab.Pause(ctx, d)
	return ctx.Err()
}
