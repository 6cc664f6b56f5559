package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// shortestUp and longestUp bound the time between recovery and the next kill.
	shortestUp, longestUp = 20 * time.Millisecond, 250 * time.Millisecond
	// The books are settled after serverKills kills.
	serverKills = 10
)

// Servers kills the server Params.Calls times under load with SIGKILL, and lets it recover. An
// answer from before the kill must hold after it.
func Servers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (a lab.Arm, err error) {
		kills := p.Calls
		if !withDedup {
			kills = max(p.Calls/controlShare, 5)
		}
		db, err := l.Create(ctx)
		if err != nil {
			return a, err
		}
		defer func() { _ = db.Drop(ctx) }()
		defer db.Pool.Reset() // its connections are dead
		v := &server{db.URL, l.Server, rand.New(rand.NewPCG(p.Seed, 3))}
		return arm(ctx, p, v, "SIGKILL of the server", kills, serverKills, twins, withDedup)
	})
}

// server is the server that is killed and restarted.
type server struct {
	url    string
	server *pgserver.Server
	rng    *rand.Rand
}

func (s *server) ready(context.Context) (url string, err error) { return s.url, nil }

func (s *server) places(ctx context.Context, url string, withDedup bool) ([]place, func(), error) {
	return dial(ctx, url, atOnce, 0, caller(withDedup))
}

func (s *server) die(ctx context.Context) error {
	if err := wait(ctx, s.rng, shortestUp, longestUp); err != nil {
		return err
	}
	if err := s.server.Kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	return s.server.Restart(ctx)
}

// wait pauses for a drawn time between two bounds.
func wait(ctx context.Context, rng *rand.Rand, shortest, longest time.Duration) error {
	lab.Pause(ctx, shortest+time.Duration(rng.Int64N(int64(longest-shortest))))
	return ctx.Err()
}
