package way

import (
	"context"
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
func DBOSOnePool() Way {
	return Way{
		Name: "dbos", Title: "DBOS, one pool", Batch: 1, Replays: true, OneKey: true,
		Open: func(ctx context.Context, env Env) (Session, error) { return openDBOS(ctx, env, "", bookWorkflow) },
	}
}

// DBOSTwoPools keeps DBOS's records in another database than the application's,
// as its documentation shows it: the step is recorded in both.
func DBOSTwoPools() Way {
	return Way{
		Name: "dbos2", Title: "DBOS, two pools", Batch: 1, Replays: true, OneKey: true, NeedsSecondDatabase: true,
		Open: func(ctx context.Context, env Env) (Session, error) {
			return openDBOS(ctx, env, env.SecondPostgres, bookWorkflow)
		},
	}
}

// DBOSStep is a workflow of one step, whose effect commits by itself as one outside of
// the database does: see [External].
func DBOSStep() Way {
	return Way{
		Name: "dbos-step", Title: "DBOS, one step", Batch: 1, Replays: true, OneKey: true,
		Open: func(ctx context.Context, env Env) (Session, error) {
			return openDBOS(ctx, env, "", stepWorkflow)
		},
	}
}

type dbosSession struct {
	ctx      dbos.Context
	workflow func(dbos.Context, args) (row, error)
	pools    []*pgxpool.Pool
}

// openDBOS launches DBOS with its records in the database of the URL, or in the
// application's own where there is none.
func openDBOS(ctx context.Context, env Env, system string, workflow newWorkflow) (_ Session, err error) {
	s := &dbosSession{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("launching DBOS: %w", err)
			s.closePools()
		}
	}()
	app, err := s.connect(ctx, env.Postgres, env.Clients)
	if err != nil {
		return nil, err
	}
	records := app
	if system != "" {
		if records, err = s.connect(ctx, system, env.Clients); err != nil {
			return nil, err
		}
	}
	s.ctx, err = dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: records, ApplicationVersion: "1", ExecutorID: "bench",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	if s.workflow, err = workflow(s.ctx, app); err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(s.ctx, s.workflow, dbos.WithWorkflowName(tool))
	if err := s.ctx.Launch(); err != nil {
		return nil, err
	}
	return s, nil
}

// newWorkflow makes a workflow that writes to the application's database.
type newWorkflow func(dbos.Context, *pgxpool.Pool) (func(dbos.Context, args) (row, error), error)

func bookWorkflow(ctx dbos.Context, app *pgxpool.Pool) (func(dbos.Context, args) (row, error), error) {
	source, err := dbos.NewDataSource(ctx, app)
	return func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsTransaction(ctx, source, func(ctx context.Context, tx dbos.Tx) (r row, err error) {
			err = tx.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		})
	}, err
}

func stepWorkflow(_ dbos.Context, app *pgxpool.Pool) (func(dbos.Context, args) (row, error), error) {
	return func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (r row, err error) {
			err = app.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		})
	}, nil
}

func (s *dbosSession) connect(ctx context.Context, url string, clients int) (*pgxpool.Pool, error) {
	pool, err := newPool(ctx, url, clients)
	if err == nil {
		s.pools = append(s.pools, pool)
	}
	return pool, err
}

func (s *dbosSession) Call(_ context.Context, keys []string) error {
	handle, err := dbos.RunWorkflow(s.ctx, s.workflow, args{Ref: keys[0]}, dbos.WithWorkflowID(keys[0]))
	if err != nil {
		return err
	}
	_, err = handle.GetResult()
	return err
}

func (s *dbosSession) Pools() []*pgxpool.Pool { return s.pools }

func (s *dbosSession) Close() error {
	err := dbos.Shutdown(s.ctx, dbosShutdown)
	s.closePools()
	if err != nil {
		return fmt.Errorf("ending DBOS: %w", err)
	}
	return nil
}

func (s *dbosSession) closePools() {
	for _, pool := range s.pools {
		pool.Close()
	}
}
