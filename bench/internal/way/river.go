package way

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// River is a unique job that is inserted in the effect's transaction: who
// inserts it has the effect, who finds it there has none. A replay learns that
// the call was made, and not what it answered.
func River() Way {
	return Way{
		Name: "river", Title: "River, unique job", Batch: 1, Replays: true, OneKey: true, Prepare: createJobs,
		Open: withRiver(func(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, key string) error {
			unique := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
			inserted, err := client.InsertTx(ctx, tx, bookArgs{Scope: Scope, Key: key}, unique)
			if err != nil || inserted.UniqueSkippedAsDuplicate {
				return err
			}
			_, err = insert(ctx, tx, key)
			return err
		}),
	}
}

// RiverJob is an outbox: a job that is inserted in the effect's transaction.
func RiverJob() Way {
	return Way{
		Name: "river-job", Title: "River, job", Batch: 1, Prepare: createJobs,
		Open: withRiver(func(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, key string) error {
			if _, err := insert(ctx, tx, key); err != nil {
				return err
			}
			_, err := client.InsertTx(ctx, tx, bookArgs{Scope: Scope, Key: key}, nil)
			return err
		}),
	}
}

func createJobs(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("creating River's tables: %w", err)
	}
	return nil
}

// withRiver opens a session whose calls are transactions.
func withRiver(in func(ctx context.Context, client *river.Client[pgx.Tx], tx pgx.Tx, key string) error) open {
	return onPool(func(_ context.Context, _ Env, pool *pgxpool.Pool) (caller, func() error, error) {
		// Without queues the client only inserts, and does nothing on its own.
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
		return func(ctx context.Context, keys []string) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return in(ctx, client, tx, keys[0]) })
		}, nil, err
	})
}

// bookArgs is the job. Its arguments are the call's identity.
type bookArgs struct {
	Scope string `json:"scope"`
	Key   string `json:"key"`
}

func (bookArgs) Kind() string { return Tool }
