package kill

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// atOnce is how many callers each place has. A client's pool has a connection for each.
	atOnce = 4
	// clients call a server that is killed.
	clients = 4
)

// place is where callers call.
type place struct {
	client *lab.Client
	call   lab.Caller
}

// load is callers that call one key after the other, two of them each at about
// the same time.
type load struct {
	ending  atomic.Bool
	abandon context.CancelFunc // ends calls that have no answer
	calls   atomic.Int64
	wg      sync.WaitGroup
}

func startLoad(ctx context.Context, places []place, ledger *lab.Ledger, round int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{abandon: cancel}
	for i := range len(places) * atOnce {
		at := places[i%len(places)]
		counted := func(ctx context.Context, c *lab.Client, key string) (int64, error) {
			l.calls.Add(1)
			return at.call(ctx, c, key)
		}
		l.wg.Go(func() {
			for n := 0; !l.ending.Load() && ctx.Err() == nil; n++ {
				// The key of callers 2 and 3 is one, and they have different places.
				_ = ledger.Deliver(ctx, at.client, counted, fmt.Sprintf("%d-%d-%d", round, i/2, n)) // the ledger has it
			}
		})
	}
	return l
}

// stop waits for the answers to what has been begun.
func (l *load) stop() int {
	l.ending.Store(true)
	l.wg.Wait()
	l.abandon()
	return int(l.calls.Load())
}

// open opens clients of a database.
func open(ctx context.Context, url string, withDedup bool) (places []place, closePools func(), err error) {
	closePools = func() {
		for _, p := range places {
			p.client.Pool.Close()
		}
	}
	for range clients {
		c, err := openClient(ctx, url)
		if err != nil {
			return places, closePools, err
		}
		places = append(places, place{c, caller(withDedup)})
	}
	return places, closePools, nil
}

func openClient(ctx context.Context, url string) (*lab.Client, error) {
	return lab.OpenClient(ctx, url, atOnce, pgx.QueryExecModeCacheStatement, &dedup.Options{Retry: lab.Retry(100 * time.Millisecond)})
}

func caller(withDedup bool) lab.Caller {
	if withDedup {
		return lab.Do
	}
	return lab.Naively
}
