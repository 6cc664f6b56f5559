// Package reissue is the campaign of an MCP client whose answers get lost. It calls a tool over
// streamable HTTP, with MCP 2026-07-28 and with the version before it, through a balancer before two
// server processes. It cancels calls at random moments, the balancer cuts connections before, behind
// and in place of the answer and delivers requests twice, and servers are killed. Whatever was not
// answered is issued again as a new request, with the same key and perhaps to the other server.
package reissue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

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
	return s.Arms(ctx, l, p, controlShare, 200, func(ctx context.Context, t *lab.Trial) error {
		a := &arm{Trial: t, opens: map[string]int{}}
		if t.Way.Dedup() {
			s.Details["answers_to_call_again"] = a.opens
		}
		return a.run(ctx)
	})
}

// arm is what the clients do and meet.
type arm struct {
	*lab.Trial
	servers *servers

	mu     sync.Mutex // of what clients note
	minted int
	opens  map[string]int // answers that say to call again, by code
}

// note has a client's note written.
func (a *arm) note(write func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	write()
}

func (a *arm) fault(kind string) { a.note(func() { a.Fault(kind, 1) }) }

// run makes the calls and settles the books.
func (a *arm) run(ctx context.Context) error {
	a.servers = newServers(task{URL: a.URL, Dedup: a.Way.Dedup()}, a.Params.Seed)
	defer a.servers.stop()
	balancer := a.servers.balance(a.fault)
	err := a.callAll(ctx, balancer.URL())
	balancer.Close() // nothing is on its way when the books are settled
	a.servers.stop()
	if err != nil {
		return err
	}
	return a.Settle(ctx)
}

// callAll has all clients make their calls.
func (a *arm) callAll(ctx context.Context, url string) error {
	busy, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		busy.Go(func() error {
			c := &client{arm: a, url: url, rng: rand.New(rand.NewPCG(a.Params.Seed, uint64(i)+4)), wire: &http.Transport{}}
			defer c.hangUp()
			for {
				key, more := a.next(c.rng)
				if !more {
					return nil
				}
				if err := a.Ledger.Deliver(ctx, &lab.Client{}, c.call, key); err != nil {
					return fmt.Errorf("key %s: %w", key, err)
				}
			}
		})
	}
	return busy.Wait()
}

// next is a key for a client: a new one, or one that another client may just be calling. It is false
// when enough calls were made.
func (a *arm) next(rng *rand.Rand) (key string, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.minted
	if n > 0 && rng.IntN(3) == 0 {
		n = max(0, n-1-rng.IntN(clients))
	} else {
		a.minted++
	}
	return fmt.Sprint(n), a.Calls < a.Params.Calls
}

// tried counts a call, and kills a server when it is time.
func (a *arm) tried() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Calls++; a.Calls%killEvery == 0 && a.servers.kill() {
		a.Fault("server killed", 1)
	}
}
