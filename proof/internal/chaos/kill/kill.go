// Package kill has the campaigns that kill processes in the middle of their calls, and that kill or
// pause the server under load.
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
	// clients is the number of clients of a server.
	clients = 4
	// atOnce is the number of callers at each place. A client's pool has a connection for each.
	atOnce = 4
	// twins is the number of callers of one key.
	twins = 2
	// controlShare is the control arm's share of the kills.
	controlShare = 10
)

// victim is a target of kills.
type victim interface {
	// ready prepares the victim and returns the URL of its database before and after the kill.
	ready(ctx context.Context) (url string, err error)
	// places are the places where callers call. The caller calls done after the last answer.
	places(ctx context.Context, url string, withDedup bool) (at []place, done func(), err error)
	// die kills the victim and returns when it serves again. A kill that disturbed no call does not
	// count.
	die(ctx context.Context) error
}

// place is one client and its way to call.
type place struct {
	client *lab.Client
	call   lab.Caller
}

// arm kills a victim so many times, and settles the books after perLoad kills. kill names the
// fault.
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

// underLoad calls do while callers call one key after the other, perKey callers each. It returns
// after the last answer, with the number of tries.
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
				// Twins, such as callers 2 and 3, share a key and call at different places.
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

// settle settles the books after the last connection of a caller has closed: an abandoned call may
// still commit.
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

// dial opens the clients of a database, with conns connections each and limit (0 is none). They use
// the calls in turn.
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
