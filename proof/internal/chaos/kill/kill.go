// Package kill has the campaigns that kill: the processes that call, in the middle of their calls, and
// the server under load, which another one pauses.
package kill

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
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
	// places are where callers call. With an error there are those that are to be closed.
	places(ctx context.Context, url string, way lab.Way) ([]place, error)
	// die kills it, and returns when it serves again. Only what disturbed a call is a kill.
	die(ctx context.Context) error
}

// place is where callers call, until it is closed.
type place struct {
	client *lab.Client
	call   lab.Caller
	close  func()
}

// arm kills as often as the trial's Params.Calls says, perLoad times under one load. It is told what a kill is, and
// how many callers call one key.
func arm(ctx context.Context, t *lab.Trial, v victim, kill string, perLoad, perKey int) error {
	for killed := 0; killed < t.Params.Calls; {
		n := min(perLoad, t.Params.Calls-killed)
		if err := load(ctx, t, v, n, perKey); err != nil {
			return fmt.Errorf("%s, after %d of them: %w", kill, killed, err)
		}
		killed += n
		t.Fault(kill, n)
		t.Params.Sayf("%s: %d of %d, %d calls: %v", kill, killed, t.Params.Calls, t.Calls, t.Tally)
	}
	return nil
}

// load kills so many times while callers call, and then settles the books.
func load(ctx context.Context, t *lab.Trial, v victim, kills, perKey int) error {
	url, err := v.ready(ctx)
	if err != nil {
		return err
	}
	places, err := v.places(ctx, url, t.Way)
	if err == nil {
		var calls int
		calls, err = underLoad(ctx, places, perKey, t.Ledger, func(ctx context.Context) (err error) {
			for n := 0; n < kills && err == nil; n++ {
				err = v.die(ctx)
			}
			return err
		})
		t.Calls += calls
	}
	for _, p := range places {
		p.close()
	}
	if err == nil {
		t.Tally, err = settle(ctx, url, t.Ledger)
	}
	return err
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

// dialer is the places of callers that call a database themselves.
type dialer struct{}

func (dialer) places(ctx context.Context, url string, way lab.Way) ([]place, error) {
	return dial(ctx, url, atOnce, 0, way.Call)
}

// dial opens clients of a database, with so many connections each and a limit of a COMMIT's answer or 0, which call
// in one way after the other.
func dial(ctx context.Context, url string, conns int32, limit time.Duration, calls ...lab.Caller) (places []place, err error) {
	for i := range clients {
		c, err := openClient(ctx, url, conns, limit)
		if err != nil {
			return places, err
		}
		places = append(places, place{c, calls[i%len(calls)], c.Pool.Close})
	}
	return places, nil
}

func openClient(ctx context.Context, url string, conns int32, limit time.Duration) (*lab.Client, error) {
	return lab.OpenClient(ctx, url, conns, pgx.QueryExecModeCacheStatement, &dedup.Options{CommitTimeout: limit, Retry: lab.Retry(100 * time.Millisecond)})
}

// wait waits for some time between two bounds.
func wait(ctx context.Context, rng *mathrand.Rand, shortest, longest time.Duration) error {
	lab.Pause(ctx, shortest+time.Duration(rng.Int64N(int64(longest-shortest))))
	return ctx.Err()
}
