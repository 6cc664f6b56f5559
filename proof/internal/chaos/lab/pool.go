package lab

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// OpenPool opens a pool of so many connections in an exec mode.
func OpenPool(ctx context.Context, url string, conns int32, mode pgx.QueryExecMode) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.DefaultQueryExecMode = mode
	return pgxpool.NewWithConfig(ctx, config)
}

// Run is an effect for a key: see [Effect].
func Run(key string) dedup.Effect[int64] {
	return func(ctx context.Context, tx pgx.Tx) (run int64, err error) {
		err = tx.QueryRow(ctx, Effect, key).Scan(&run)
		return run, err
	}
}

// A Beginner is a pool or a connection.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// RunNaively is [Run] in a plain transaction: what a control arm repeats after any
// error.
func RunNaively(ctx context.Context, on Beginner, key string) (run int64, err error) {
	err = pgx.BeginFunc(ctx, on, func(tx pgx.Tx) (err error) {
		run, err = Run(key)(ctx, tx)
		return err
	})
	return run, err
}

// RunNaivelyWithin is [RunNaively] that gives the transaction up after a while, as
// callers do. The wait for a connection does not count: pgx keeps the place of a
// connection that was given up for as long as 15 seconds.
func RunNaivelyWithin(ctx context.Context, pool *pgxpool.Pool, limit time.Duration, key string) (run int64, err error) {
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		run, err = RunNaively(ctx, conn, key)
		return err
	})
	return run, err
}

// Modes are all in which pgx can send statements.
var Modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// Answer is what [Effect] answers as a row: DoStatement's result.
type Answer struct {
	Run int64 `json:"run"`
}

// RunRow is [Run] with the answer that DoStatement gives.
func RunRow(key string) dedup.Effect[Answer] {
	return func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		run, err := Run(key)(ctx, tx)
		return Answer{run}, err
	}
}
