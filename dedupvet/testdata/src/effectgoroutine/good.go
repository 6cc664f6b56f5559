package effectgoroutine

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
	"golang.org/x/sync/errgroup"
)

type ticket struct{ id int }

// Goroutines that compute, and use values that were read before.
func computes(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		var t ticket
		if err := tx.QueryRow(ctx, "INSERT").Scan(&t.id); err != nil {
			return 0, err
		}
		go hash(t)
		var g errgroup.Group
		g.Go(func() error { hash(t); return nil })
		var wg sync.WaitGroup
		wg.Go(func() { hash(t) })
		wg.Wait()
		time.AfterFunc(time.Second, func() { hash(t) })
		return t.id, g.Wait()
	})
}

func hash(ticket) {}

func made(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		t, err := open(ctx, tx)
		go hash(t)
		return t.id, err
	})
}

func open(ctx context.Context, tx pgx.Tx) (t ticket, err error) {
	return t, tx.QueryRow(ctx, "INSERT").Scan(&t.id)
}

// A function that is called on the spot.
func called(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		write := func() error { _, err := tx.Exec(ctx, "INSERT"); return err }
		return 1, write()
	})
}

// A call on each goroutine, with a transaction each.
func callsInParallel(ctx context.Context, d *dedup.Deduper, calls []dedup.Call) error {
	var g errgroup.Group
	for _, call := range calls {
		g.Go(func() error {
			_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, "INSERT")
				return 1, err
			})
			return err
		})
	}
	return g.Wait()
}

// A goroutine's own transaction is reported by effectwrites.
func ownTx(ctx context.Context, d *dedup.Deduper, call dedup.Call, pool *pgxpool.Pool) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		go func() {
			own, err := pool.Begin(ctx)
			if err == nil {
				_ = own.Commit(ctx)
			}
			_ = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT")
				return err
			})
		}()
		return 1, nil
	})
}

type queue struct{}

func (queue) Go(tx pgx.Tx) {}

// A method of that name without a function argument.
func namedGo(ctx context.Context, d *dedup.Deduper, call dedup.Call, q queue) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		q.Go(tx)
		return 1, nil
	})
}

// Not an effect: the application's own transaction.
func noEffect(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		go func() { _, _ = tx.Exec(ctx, "INSERT") }()
		return nil
	})
}
