package reissue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	clients = 12
	// killEvery is after how many calls a server is killed.
	killEvery = 250
	// controlShare is the control arm's share of the calls.
	controlShare = 10
)

// Run makes Params.Calls calls with dedup in both servers, and then some without.
func Run(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "mcp", Seed: p.Seed, Server: l.Version}
	c, tally, err := arm(ctx, l, p, p.Calls, true)
	s.Calls, s.FaultsByKind, s.Tally = c.calls, c.faults, tally
	for _, n := range c.faults {
		s.Faults += n
	}
	s.Details = map[string]any{"answers_to_call_again": c.opens, "answered": c.answered}
	if err != nil {
		return s, err
	}
	c, s.Control, err = arm(ctx, l, p, max(p.Calls/controlShare, 200), false)
	s.ControlCalls = c.calls
	for _, n := range c.faults {
		s.ControlFaults += n
	}
	return s, err
}

// counts are what the clients did and met.
type counts struct {
	dedup  bool
	wanted int // calls

	mu       sync.Mutex
	calls    int
	answered int
	minted   int
	faults   map[string]int
	opens    map[string]int // answers that say to call again, by code
	kill     chan struct{}  // gets one when a server is to be killed
}

// next is a key for a client: a new one, or one that another client may just be
// calling. It is false when enough calls were made.
func (c *counts) next(rng *rand.Rand) (key string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls >= c.wanted {
		return "", false
	}
	n := c.minted
	if n > 0 && rng.IntN(3) == 0 {
		n = max(0, n-1-rng.IntN(clients))
	} else {
		c.minted++
	}
	return fmt.Sprint(n), true
}

func (c *counts) tried() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.calls%killEvery == 0 {
		select {
		case c.kill <- struct{}{}:
		default: // one is being killed
		}
	}
}

func (c *counts) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered++
}

func (c *counts) fault(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[kind]++
}

func (c *counts) open(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens[code]++
}

// arm makes so many calls and settles the books.
func arm(ctx context.Context, l *lab.Lab, p lab.Params, calls int, withDedup bool) (c *counts, tally score.Tally, err error) {
	c = &counts{dedup: withDedup, wanted: calls, faults: map[string]int{}, opens: map[string]int{}, kill: make(chan struct{}, 1)}
	db, err := l.Create(ctx)
	if err != nil {
		return c, tally, err
	}
	defer func() { _ = db.Drop(ctx) }()
	f, err := startFleet(ctx, hello{URL: db.URL, Dedup: withDedup})
	if err != nil {
		return c, tally, err
	}
	defer f.stop()
	b, url, stop, err := serveBalancer(ctx, f, p.Seed)
	if err != nil {
		return c, tally, err
	}
	defer stop()

	ledger := lab.NewLedger()
	err = callAll(ctx, c, f, url, p.Seed, ledger)
	stop() // nothing is on its way when the books are settled
	f.stop()
	maps.Copy(c.faults, b.faults)
	if err != nil {
		return c, tally, err
	}
	tally, err = ledger.Settle(ctx, db.Pool)
	p.Sayf("dedup %t: %d calls, %d answered: %d duplicates, %d lost, %d differing", withDedup, c.calls, c.answered, tally.Duplicates, tally.Lost, tally.Differing)
	return c, tally, err
}

// callAll has all clients make their calls, while servers are killed.
func callAll(ctx context.Context, c *counts, f *fleet, url string, seed uint64, ledger *lab.Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var busy, killing sync.WaitGroup
	for i := range clients {
		busy.Go(func() {
			if err := work(ctx, &client{url: url, rng: rand.New(rand.NewPCG(seed, uint64(i)+4)), counts: c}, ledger); err != nil {
				cancel(err)
			}
		})
	}
	killing.Go(func() {
		for rng := rand.New(rand.NewPCG(seed, 2)); ; {
			select {
			case <-ctx.Done():
				return
			case _, more := <-c.kill:
				if !more {
					return
				}
				if err := f.kill(ctx, rng.IntN(len(f.servers))); err != nil {
					cancel(err)
					return
				}
				c.fault("server killed")
			}
		}
	})
	busy.Wait()
	close(c.kill)
	killing.Wait()
	return context.Cause(ctx)
}

// work makes calls until there were enough.
func work(ctx context.Context, c *client, ledger *lab.Ledger) error {
	c.wire = &http.Transport{}
	defer c.wire.CloseIdleConnections()
	defer func() {
		if c.session != nil {
			_ = c.session.Close()
		}
	}()
	for {
		key, more := c.counts.next(c.rng)
		if !more {
			return nil
		}
		run, err := c.call(ctx, key)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		ledger.Answered(key, run)
		c.counts.done()
	}
}
