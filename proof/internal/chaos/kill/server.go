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
	// serverKills are the kills after which the books are settled.
	serverKills = 10
)

// Servers kills the server Params.Calls times under load, each time with SIGKILL, and lets it recover.
// What was answered before must be there after.
func Servers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(ctx, l, p, controlShare, 5, func(ctx context.Context, t *lab.Trial) error {
		defer t.Pool.Reset() // its connections are dead
		v := &server{url: t.URL, server: l.Server, rng: rand.New(rand.NewPCG(p.Seed, 3))}
		return arm(ctx, t, v, "SIGKILL of the server", serverKills, twins)
	})
}

// server is a server that is killed and restarted.
type server struct {
	dialer
	url    string
	server *pgserver.Server
	rng    *rand.Rand
}

func (s *server) ready(context.Context) (url string, err error) { return s.url, nil }

func (s *server) die(ctx context.Context) error {
	if err := wait(ctx, s.rng, shortestUp, longestUp); err != nil {
		return err
	}
	if err := s.server.Kill(); err != nil {
		return fmt.Errorf("killing the server: %w", err)
	}
	return s.server.Restart(ctx)
}
