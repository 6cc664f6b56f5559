// Package reissue is the campaign of an MCP client whose answers get lost. It calls a tool over
// streamable HTTP, with MCP 2026-07-28 and with the version before it, through a balancer in front
// of two server processes. The client cancels calls at random moments. The balancer cuts
// connections before the request, behind it and in place of the answer, and delivers requests
// twice. Servers are killed. The client issues an unanswered call again as a new request, with the
// same key and perhaps to the other server.
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
	// killEvery is the number of calls between two kills.
	killEvery = 250
	// controlShare is the control arm's share of the calls.
	controlShare = 10
)

// Run makes Params.Calls calls with dedup in both servers, and then the control's calls without it.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (lab.Arm, error) {
		a := &arm{dedup: withDedup, wanted: p.Calls, opens: map[string]int{}}
		if !withDedup {
			a.wanted = max(p.Calls/controlShare, 200)
		}
		err := a.run(ctx, l, p)
		if withDedup {
			s.Details["answers_to_call_again"] = a.opens
		}
		return a.Arm, err
	})
}

// arm is the clients and their faults.
type arm struct {
	dedup   bool
	wanted  int // calls
	servers *servers

	mu sync.Mutex
	lab.Arm
	minted int
	opens  map[string]int // answers that ask to call again, by code
}

// note writes a client's note under the lock.
func (a *arm) note(write func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	write()
}

func (a *arm) fault(kind string) { a.note(func() { a.Fault(kind, 1) }) }

// run makes the calls and settles the books.
func (a *arm) run(ctx context.Context, l *lab.Lab, p lab.Params) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	a.servers = newServers(task{URL: db.URL, Dedup: a.dedup}, p.Seed)
	defer a.servers.stop()
	balancer := a.servers.balance(a.fault)
	ledger := lab.NewLedger()
	err = a.callAll(ctx, balancer.URL(), p.Seed, ledger)
	balancer.Close() // no call is running when the books are settled
	a.servers.stop()
	if err != nil {
		return err
	}
	a.Tally, err = ledger.Settle(ctx, db.Pool)
	p.Sayf("dedup %t: %d calls: %v", a.dedup, a.Calls, a.Tally)
	return err
}

// callAll waits until all clients have made their calls.
func (a *arm) callAll(ctx context.Context, url string, seed uint64, ledger *lab.Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var busy sync.WaitGroup
	for i := range clients {
		busy.Go(func() {
			c := &client{arm: a, url: url, rng: rand.New(rand.NewPCG(seed, uint64(i)+4)), wire: &http.Transport{}}
			defer c.hangUp()
			for {
				key, more := a.next(c.rng)
				if !more {
					return
				}
				if err := ledger.Deliver(ctx, &lab.Client{}, c.call, key); err != nil {
					cancel(fmt.Errorf("key %s: %w", key, err))
					return
				}
			}
		})
	}
	busy.Wait()
	return context.Cause(ctx)
}

// next returns a key for a client: a new key, or a key that another client may be calling. It
// returns false after the last call.
func (a *arm) next(rng *rand.Rand) (key string, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.minted
	if n > 0 && rng.IntN(3) == 0 {
		n = max(0, n-1-rng.IntN(clients))
	} else {
		a.minted++
	}
	return fmt.Sprint(n), a.Calls < a.wanted
}

// tried counts a call and kills a server after every killEvery calls.
func (a *arm) tried() {
	a.mu.Lock()
	a.Calls++
	calls := a.Calls
	a.mu.Unlock()
	if calls%killEvery == 0 && a.servers.kill() {
		a.fault("server killed")
	}
}
