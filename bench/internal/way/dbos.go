package way

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosShutdown is how long DBOS may take to end its own goroutines.
const dbosShutdown = 10 * time.Second

// DBOSOnePool is a workflow of DBOS Transact with one transaction, whose id is
// the key. Application and system share a pool, so that the step's checkpoint is
// part of the effect's transaction.
func DBOSOnePool() Way { return dbosWay("dbos", "DBOS, one pool", bookWorkflow) }

// DBOSTwoPools keeps DBOS's records in another database than the application's,
// as its documentation shows it: the step is recorded in both.
func DBOSTwoPools() Way {
	w := dbosWay("dbos2", "DBOS, two pools", bookWorkflow)
	w.NeedsSecondDatabase = true
	return w
}

// DBOSStep is a workflow of one step, whose effect commits by itself as one outside of
// the database does: see [External].
func DBOSStep() Way { return dbosWay("dbos-step", "DBOS, one step", stepWorkflow) }

func dbosWay(name, title string, make newWorkflow) Way {
	return Way{
		Name: name, Title: title, Batch: 1, Replays: true, OneKey: true,
		Open: func(ctx context.Context, env Env) (*Session, error) {
			s := &Session{}
			if err := s.launchDBOS(ctx, env, make); err != nil {
				return nil, errors.Join(fmt.Errorf("launching DBOS: %w", err), s.Close())
			}
			return s, nil
		},
	}
}

type workflow = func(dbos.Context, args) (row, error)

// newWorkflow makes a workflow that writes to the application's database.
type newWorkflow func(dbos.Context, *pgxpool.Pool) (workflow, error)

func bookWorkflow(ctx dbos.Context, app *pgxpool.Pool) (workflow, error) {
	source, err := dbos.NewDataSource(ctx, app)
	return func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsTransaction(ctx, source, func(ctx context.Context, tx dbos.Tx) (r row, err error) {
			err = tx.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		})
	}, err
}

func stepWorkflow(_ dbos.Context, app *pgxpool.Pool) (workflow, error) {
	return func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (r row, err error) {
			err = app.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		})
	}, nil
}

// launchDBOS keeps DBOS's records in the second database, or in the application's own where there is none.
func (s *Session) launchDBOS(ctx context.Context, env Env, make newWorkflow) error {
	app, err := s.connect(ctx, env.Postgres, env.Clients)
	if err != nil {
		return err
	}
	records := app
	if env.SecondPostgres != "" {
		if records, err = s.connect(ctx, env.SecondPostgres, env.Clients); err != nil {
			return err
		}
	}
	system, err := dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: records, ApplicationVersion: "1", ExecutorID: "bench",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	run, err := make(system, app)
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(system, run, dbos.WithWorkflowName(Tool))
	if err := system.Launch(); err != nil {
		return err
	}
	s.end = func() error { return dbos.Shutdown(system, dbosShutdown) }
	s.Call = func(_ context.Context, keys []string) error {
		handle, err := dbos.RunWorkflow(system, run, args{Ref: keys[0]}, dbos.WithWorkflowID(keys[0]))
		if err != nil {
			return err
		}
		_, err = handle.GetResult()
		return err
	}
	return nil
}
