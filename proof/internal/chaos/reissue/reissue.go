// Package reissue is the campaign of an MCP client whose answers get lost. It calls a
// tool over streamable HTTP, with MCP 2026-07-28 and with the version before it,
// through a balancer before two server processes. It cancels calls at random moments,
// the balancer cuts connections before, behind and in place of the answer and delivers
// requests twice, and servers are killed. Whatever was not answered is issued again as
// a new request, with the same key and perhaps to the other server.
package reissue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	clients = 12
	// killEvery is after how many calls a server is killed.
	killEvery = 250
	// controlShare is the control arm's share of the calls.
	controlShare = 10
)

// Run makes Params.Calls calls with dedup in both servers, and then some without.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		calls := p.Calls
		if !withDedup {
			calls = max(p.Calls/controlShare, 200)
		}
		c := &counts{dedup: withDedup, wanted: calls, opens: map[string]int{}, kill: make(chan struct{}, 1)}
		err := c.arm(ctx, l, p)
		if withDedup {
			s.Details["answers_to_call_again"], s.Details["answered"] = c.opens, c.answered
		}
		return c.Arm, err
	})
}

// counts are what the clients did and met.
type counts struct {
	dedup  bool
	wanted int // calls

	mu sync.Mutex
	lab.Arm
	answered int
	minted   int
	opens    map[string]int // answers that say to call again, by code
	kill     chan struct{}  // gets one when a server is to be killed
}

// next is a key for a client: a new one, or one that another client may just be
// calling. It is false when enough calls were made.
func (c *counts) next(rng *rand.Rand) (key string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Calls >= c.wanted {
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
	c.Calls++
	if c.Calls%killEvery == 0 {
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
	c.Fault(kind, 1)
}

func (c *counts) open(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens[code]++
}

// arm makes the calls and settles the books.
func (c *counts) arm(ctx context.Context, l *lab.Lab, p lab.Params) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	f, err := startServers(task{URL: db.URL, Dedup: c.dedup}, p.Seed)
	if err != nil {
		return err
	}
	defer f.stop()
	balancer := f.balance(c.fault)
	ledger := lab.NewLedger()
	err = callAll(ctx, c, f, balancer.URL(), p.Seed, ledger)
	balancer.Close() // nothing is on its way when the books are settled
	f.stop()
	if err != nil {
		return err
	}
	c.Tally, err = ledger.Settle(ctx, db.Pool)
	p.Sayf("dedup %t: %d calls, %d answered: %v", c.dedup, c.Calls, c.answered, c.Tally)
	return err
}

// callAll has all clients make their calls, while servers are killed.
func callAll(ctx context.Context, c *counts, f *servers, url string, seed uint64, ledger *lab.Ledger) error {
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
				if err := f.kill(rng.IntN(len(f.all))); err != nil {
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
