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
		Name: "river", Title: "River, unique job", Batch: 1, Replays: true, OneKey: true,
		Prepare: func(ctx context.Context, pool *pgxpool.Pool) error {
			migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
			if err != nil {
				return err
			}
			if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
				return fmt.Errorf("creating River's tables: %w", err)
			}
			return nil
		},
		Open: func(ctx context.Context, env Env) (Session, error) {
			pool, err := newPool(ctx, env.Postgres, env.Clients)
			if err != nil {
				return nil, err
			}
			// Without queues the client only inserts, and does nothing on its own.
			client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
			if err != nil {
				pool.Close()
				return nil, err
			}
			return riverSession{onePool{pool}, client}, nil
		},
	}
}

type riverSession struct {
	onePool
	client *river.Client[pgx.Tx]
}

// bookArgs is the job. Its arguments are the call's identity.
type bookArgs struct {
	Scope string `json:"scope"`
	Key   string `json:"key"`
}

func (bookArgs) Kind() string { return tool }

func (s riverSession) Call(ctx context.Context, keys []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		inserted, err := s.client.InsertTx(ctx, tx, bookArgs{Scope: scope, Key: keys[0]},
			&river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
		if err != nil || inserted.UniqueSkippedAsDuplicate {
			return err
		}
		var id int
		return tx.QueryRow(ctx, effect, keys[0]).Scan(&id)
	})
}
