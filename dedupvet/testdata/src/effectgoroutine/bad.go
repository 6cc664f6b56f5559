package effectgoroutine

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/mcpdedup"
	"golang.org/x/sync/errgroup"

	"store"
)

func captured(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		go func() { // want `a goroutine uses the transaction in an effect`
			_, _ = tx.Exec(ctx, "INSERT")
		}()
		return 1, nil
	})
}

func handedOver(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		go audit(ctx, tx)                         // want `a goroutine uses the transaction`
		go func(tx pgx.Tx) { audit(ctx, tx) }(tx) // want `a goroutine uses the transaction`
		go tx.Exec(ctx, "INSERT")                 // want `a goroutine uses the transaction`
		return 1, nil
	})
}

func audit(ctx context.Context, tx pgx.Tx) error {
	done := make(chan struct{})
	go func() { // want `a goroutine uses the transaction in audit, which an effect calls`
		defer close(done)
		_, _ = tx.Exec(ctx, "INSERT")
	}()
	<-done
	return nil
}

func inGroups(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		var g errgroup.Group
		g.Go(func() error { return audit(ctx, tx) })    // want `a goroutine uses the transaction`
		g.TryGo(func() error { return audit(ctx, tx) }) // want `a goroutine uses the transaction`
		work := func() error { return audit(ctx, tx) }
		g.Go(work) // want `a goroutine uses the transaction`
		var wg sync.WaitGroup
		wg.Go(func() { _ = audit(ctx, tx) }) // want `a goroutine uses the transaction`
		wg.Wait()
		return 1, g.Wait()
	})
}

func later(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		time.AfterFunc(time.Second, func() { _ = audit(ctx, tx) }) // want `a goroutine uses the transaction`
		context.AfterFunc(ctx, func() { _ = audit(ctx, tx) })      // want `a goroutine uses the transaction`
		return 1, nil
	})
}

func derived(ctx context.Context, d *dedup.Deduper, call dedup.Call, queries *store.Queries) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		bound := queries.WithTx(tx)
		go bound.Touch(ctx) // want `a goroutine uses the transaction`
		rows, err := tx.Query(ctx, "SELECT 1")
		if err != nil {
			return 0, err
		}
		go rows.Close() // want `a goroutine uses the transaction`
		savepoint, err := tx.Begin(ctx)
		go func() { _ = savepoint.Commit(ctx) }() // want `a goroutine uses the transaction`
		r := &repository{tx: tx}
		go r.insert(ctx) // want `a goroutine uses the transaction in an effect`
		return 1, err
	})
}

type repository struct{ tx pgx.Tx }

func (r *repository) insert(ctx context.Context) {
	go func() { // want `a goroutine uses the transaction in insert, which an effect calls`
		_, _ = r.tx.Exec(ctx, "INSERT")
	}()
}

func behindDoors(ctx context.Context) {
	overHTTP, _ := httpdedup.Tx(ctx)
	go audit(ctx, overHTTP) // want `a goroutine uses the transaction in an effect`
	overMCP, _ := mcpdedup.Tx(ctx)
	go audit(ctx, overMCP) // want `a goroutine uses the transaction in an effect`
	overGRPC, _ := grpcdedup.Tx(ctx)
	go audit(ctx, overGRPC) // want `a goroutine uses the transaction in an effect`
	overConnect, _ := connectdedup.Tx(ctx)
	go audit(ctx, overConnect) // want `a goroutine uses the transaction in an effect`
}
