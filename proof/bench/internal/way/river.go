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

// riverUnique is a unique job that is inserted in the effect's transaction. A call that inserts it
// has the effect, and a call that finds it has none. A replay learns that the call was made, and
// not its answer.
func riverUnique(_ context.Context, s *Session) (caller, error) {
	unique := &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
	// Without queues the client only inserts.
	client, err := river.NewClient(riverpgxv5.New(s.Pool), &river.Config{})
	return func(ctx context.Context, keys []string) error {
		return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
			inserted, err := client.InsertTx(ctx, tx, bookArgs{Scope: Scope, Key: keys[0]}, unique)
			if err != nil || inserted.UniqueSkippedAsDuplicate {
				return err
			}
			_, err = insert(ctx, tx, keys[0])
			return err
		})
	}, err
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

// bookArgs is the job. Its arguments are the call's identity.
type bookArgs struct {
	Scope string `json:"scope"`
	Key   string `json:"key"`
}

func (bookArgs) Kind() string { return Tool }
