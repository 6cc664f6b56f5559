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
		Prepare: createJobs,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := openRiver(ctx, env)
			return uniqueJob{s}, err
		},
	}
}

// RiverJob is an outbox: a job that is inserted in the effect's transaction.
func RiverJob() Way {
	return Way{
		Name: "river-job", Title: "River, job", Batch: 1,
		Prepare: createJobs,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := openRiver(ctx, env)
			return job{s}, err
		},
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

func openRiver(ctx context.Context, env Env) (riverSession, error) {
	pool, err := newPool(ctx, env.Postgres, env.Clients)
	if err != nil {
		return riverSession{}, err
	}
	// Without queues the client only inserts, and does nothing on its own.
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		pool.Close()
		return riverSession{}, err
	}
	return riverSession{onePool{pool}, client}, nil
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

type uniqueJob struct{ riverSession }

func (s uniqueJob) Call(ctx context.Context, keys []string) error {
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

type job struct{ riverSession }

func (s job) Call(ctx context.Context, keys []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int
		if err := tx.QueryRow(ctx, effect, keys[0]).Scan(&id); err != nil {
			return err
		}
		_, err := s.client.InsertTx(ctx, tx, bookArgs{Scope: scope, Key: keys[0]}, nil)
		return err
	})
}
