package way

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// dbosShutdown bounds the end of DBOS's goroutines.
const dbosShutdown = 10 * time.Second

type workflow = func(dbos.Context, args) (row, error)

// dbosTransaction is a workflow of DBOS Transact with one transaction. Its id is the key.
// Application and system share a pool, so the step's checkpoint is part of the effect's
// transaction.
func dbosTransaction(ctx context.Context, s *Session) (caller, error) {
	system, err := newDBOS(ctx, s)
	if err != nil {
		return nil, err
	}
	source, err := dbos.NewDataSource(system, s.Pool)
	if err != nil {
		return nil, err
	}
	return launch(system, s, func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsTransaction(ctx, source, func(ctx context.Context, tx dbos.Tx) (r row, err error) {
			err = tx.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		})
	})
}

// dbosStep is a workflow of one step. Its effect commits alone, as an effect outside the
// database does: see externalDo.
func dbosStep(ctx context.Context, s *Session) (caller, error) {
	system, err := newDBOS(ctx, s)
	if err != nil {
		return nil, err
	}
	return launch(system, s, func(ctx dbos.Context, in args) (row, error) {
		return dbos.RunAsStep(ctx, func(ctx context.Context) (row, error) { return insert(ctx, s.Pool, in.Ref) })
	})
}

// newDBOS keeps DBOS's records in the application's database.
func newDBOS(ctx context.Context, s *Session) (dbos.Context, error) {
	return dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: s.Pool, ApplicationVersion: "1", ExecutorID: "bench",
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

func launch(system dbos.Context, s *Session, run workflow) (caller, error) {
	dbos.RegisterWorkflow(system, run, dbos.WithWorkflowName(Tool))
	if err := system.Launch(); err != nil {
		return nil, err
	}
	s.atEnd(func() error { return dbos.Shutdown(system, dbosShutdown) })
	return func(_ context.Context, keys []string) error {
		handle, err := dbos.RunWorkflow(system, run, args{Ref: keys[0]}, dbos.WithWorkflowID(keys[0]))
		if err != nil {
			return err
		}
		_, err = handle.GetResult()
		return err
	}, nil
}
