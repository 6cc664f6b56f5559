package way

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// External is [external.Handle.Do]. An INSERT that commits by itself stands for the
// provider: one trip, as many as a provider's.
func External() Way {
	return Way{
		Name: "external", Title: "external.Do", Batch: 1, Replays: true, OneKey: true, Prepare: createRecords,
		Open: withProvider(func(ctx context.Context, _ *dedup.Deduper, handle *external.Handle[args, row], key string) error {
			_, err := handle.Do(ctx, call(key), args{Ref: key})
			return err
		}),
	}
}

// ExternalAccept is an outbox: [external.Handle.Accept] in the transaction of a write. Where
// Accept answers that the transaction has to be run again, [dedup.Deduper.BeginFunc] does so.
func ExternalAccept() Way {
	return Way{
		Name: "accept", Title: "external.Accept", Batch: 1, Prepare: createRecords,
		Open: withProvider(func(ctx context.Context, d *dedup.Deduper, handle *external.Handle[args, row], key string) error {
			return d.BeginFunc(ctx, func(tx pgx.Tx) error {
				if _, err := insert(ctx, tx, key); err != nil {
					return err
				}
				_, err := handle.Accept(ctx, tx, call(key), args{Ref: key})
				return err
			})
		}),
	}
}

// withProvider opens a session with a tool that acts outside of the database.
func withProvider(make func(ctx context.Context, d *dedup.Deduper, handle *external.Handle[args, row], key string) error) open {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		d, err := dedup.New(pool, nil)
		if err != nil {
			return nil, nil, err
		}
		tools, err := external.New(d, nil)
		if err != nil {
			return nil, nil, err
		}
		handle, err := external.Add(tools, external.Tool[args, row]{
			Name: Tool,
			Perform: func(ctx context.Context, _ external.Attempt, in args) (r row, err error) {
				err = pool.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
				return r, err
			},
			Ref:     func(out row) string { return strconv.Itoa(out.ID) },
			KeyKept: 24 * time.Hour,
		})
		end := func() error { return tools.Close(context.Background()) } // waits for what they still do
		return func(ctx context.Context, keys []string) error { return make(ctx, d, handle, keys[0]) }, end, err
	})
}
