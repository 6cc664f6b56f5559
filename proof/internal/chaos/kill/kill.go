// Package kill has the campaigns that kill: the processes that call, in the middle of their calls, and
// the server under load, which another one pauses.
package kill

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// clients call a server that is killed.
	clients = 4
	// atOnce is how many callers each place has. A client's pool has a connection for each.
	atOnce = 4
	// twins are how many callers call one key.
	twins = 2
	// controlShare is the control arm's share of the kills.
	controlShare = 10
)

// victim is what is killed.
type victim interface {
	// ready makes it ready for a load, and returns the URL of the database before and after.
	ready(ctx context.Context) (url string, err error)
	// places are where callers call. The caller calls done when all is answered.
	places(ctx context.Context, url string, withDedup bool) (at []place, done func(), err error)
	// die kills it, and returns when it serves again. Only what disturbed a call is a kill.
	die(ctx context.Context) error
}

// place is where callers call.
type place struct {
	client *lab.Client
	call   lab.Caller
}

// arm kills so many times, and settles the books after perLoad of them. It is told what a kill is.
func arm(ctx context.Context, p lab.Params, v victim, kill string, kills, perLoad, perKey int, withDedup bool) (a lab.Arm, err error) {
	ledger := lab.NewLedger()
	for killed := 0; killed < kills; {
		url, err := v.ready(ctx)
		if err != nil {
			return a, err
		}
		places, done, err := v.places(ctx, url, withDedup)
		if err != nil {
			return a, err
		}
		calls, err := underLoad(ctx, places, perKey, ledger, func(ctx context.Context) error {
			for range min(perLoad, kills-killed) {
				if err := v.die(ctx); err != nil {
					return fmt.Errorf("%s %d: %w", kill, killed+1, err)
				}
				killed++
				a.Fault(kill, 1)
			}
			return nil
		})
		done()
		a.Calls += calls
		if err == nil {
			a.Tally, err = settle(ctx, url, ledger)
		}
		if err != nil {
			return a, err
		}
		p.Sayf("%s: %d of %d, %d calls: %v", kill, killed, kills, a.Calls, a.Tally)
	}
	return a, nil
}

// underLoad does something while callers call one key after the other, perKey of them each at about the
// same time. When it is done, what has been begun is answered. calls are the tries.
func underLoad(ctx context.Context, places []place, perKey int, ledger *lab.Ledger, do func(context.Context) error) (calls int, err error) {
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	var done atomic.Bool
	var tries atomic.Int64
	var callers sync.WaitGroup
	name := rand.Text()
	for i := range len(places) * atOnce {
		at := places[i%len(places)]
		counted := func(ctx context.Context, c *lab.Client, key string) (int64, error) {
			tries.Add(1)
			return at.call(ctx, c, key)
		}
		callers.Go(func() {
			for n := 0; !done.Load() && ctx.Err() == nil; n++ {
				// Twins have one key, such as callers 2 and 3, and different places.
				_ = ledger.Deliver(ctx, at.client, counted, fmt.Sprintf("%s-%d-%d", name, i/perKey, n)) // the ledger has it
			}
		})
	}
	if err = do(ctx); err != nil {
		abandon()
	}
	done.Store(true)
	callers.Wait()
	return int(tries.Load()), err
}

// settle settles the books when the server has no more connections of callers: what was given up may yet commit.
func settle(ctx context.Context, url string, ledger *lab.Ledger) (lab.Tally, error) {
	pool, err := lab.OwnPool(ctx, url)
	if err != nil {
		return lab.Tally{}, err
	}
	defer pool.Close()
	err = lab.Insist(ctx, func(ctx context.Context, _ int) error {
		var left int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> $1`, lab.OwnName).Scan(&left)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d connections of callers are open", left)
		}
		return err
	})
	if err != nil {
		return lab.Tally{}, err
	}
	return ledger.Settle(ctx, pool)
}

// dial opens clients of a database, with so many connections each and a limit or 0, which call in one way after the other.
func dial(ctx context.Context, url string, conns int32, limit time.Duration, calls ...lab.Caller) (places []place, closePools func(), err error) {
	closePools = func() {
		for _, p := range places {
			p.client.Pool.Close()
		}
	}
	for i := range clients {
		c, err := openClient(ctx, url, conns, limit)
		if err != nil {
			closePools()
			return nil, nil, err
		}
		places = append(places, place{c, calls[i%len(calls)]})
	}
	return places, closePools, nil
}

func openClient(ctx context.Context, url string, conns int32, limit time.Duration) (*lab.Client, error) {
	return lab.OpenClient(ctx, url, conns, pgx.QueryExecModeCacheStatement, &dedup.Options{CommitTimeout: limit, Retry: lab.Retry(100 * time.Millisecond)})
}

func caller(withDedup bool) lab.Caller {
	if withDedup {
		return lab.Do
	}
	return lab.Naively
}
