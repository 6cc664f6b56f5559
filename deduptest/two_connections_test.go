package deduptest_test

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
)

// twoConnections has an effect that queries the pool while as many of its twins as possible hold
// the pool's other connections.
func twoConnections(ctx context.Context, try deduptest.Try) (answer any, err error) {
	defer connections.enter(try.Pool)()
	err = pgx.BeginFunc(ctx, try.Pool, func(tx pgx.Tx) error {
		defer connections.hold(try.Pool)()
		result, err := dedup.DoTx(ctx, try.Deduper, tx, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			connections.await(try.Pool)
			if _, err := try.Pool.Exec(ctx, `SELECT 1`); err != nil {
				return ticket{}, err
			}
			return insertTicket(ctx, tx, try)
		})
		answer = result.Value
		return err
	})
	return answer, err
}

// connections counts, for each pool, the calls in twoConnections, and how many of them hold a
// connection.
var connections = counts{
	changed: sync.NewCond(new(sync.Mutex)),
	inside:  map[*pgxpool.Pool]int{},
	holding: map[*pgxpool.Pool]int{},
}

type counts struct {
	changed         *sync.Cond
	inside, holding map[*pgxpool.Pool]int
}

func (c *counts) enter(pool *pgxpool.Pool) (leave func()) { return c.add(c.inside, pool) }
func (c *counts) hold(pool *pgxpool.Pool) (leave func())  { return c.add(c.holding, pool) }

func (c *counts) add(to map[*pgxpool.Pool]int, pool *pgxpool.Pool) (leave func()) {
	change := func(by int) {
		c.changed.L.Lock()
		defer c.changed.L.Unlock()
		to[pool] += by
		c.changed.Broadcast()
	}
	change(1)
	return func() { change(-1) }
}

// await returns when every call in twoConnections holds a connection, or the pool has no more.
func (c *counts) await(pool *pgxpool.Pool) {
	c.changed.L.Lock()
	defer c.changed.L.Unlock()
	for c.holding[pool] < min(c.inside[pool], int(pool.Config().MaxConns)) {
		c.changed.Wait()
	}
}
