package orders

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
)

// Job is a call and its effect.
type Job struct {
	Call   dedup.Call
	caller int
	fails  int64
}

// Told is a call's answer.
type Told struct {
	Run      int64
	Replayed bool
}

// result is the row of an effect, and the recorded result.
type result struct {
	Run int64 `json:"run" db:"run"`
}

// As a statement, a failing effect raises.
const (
	effectSQL    = `SELECT raises, run FROM orders.effect($1::text, $2::int, $3::bigint, false)`
	statementSQL = `SELECT run FROM orders.effect($1::text, $2::int, $3::bigint, true)`
)

// ErrEffect is the error of a failing effect.
var ErrEffect = errors.New("the effect has failed")

// Effect runs the job's effect, and returns the number of the run.
func (j Job) Effect(ctx context.Context, tx pgx.Tx) (run int64, err error) {
	var failed bool
	err = tx.QueryRow(ctx, effectSQL, j.Call.Key, j.caller, j.fails).Scan(&failed, &run)
	if err == nil && failed {
		err = ErrEffect
	}
	return run, err
}

func (j Job) effect(ctx context.Context, tx pgx.Tx) (r result, err error) {
	r.Run, err = j.Effect(ctx, tx)
	return r, err
}

// effectFailed reports whether err comes from a failing effect.
func effectFailed(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, ErrEffect) || ok && server.Code == "P0EFF"
}

// Way is a way to make a call.
type Way struct {
	Name string
	Call func(ctx context.Context, c *Caller, job Job) (Told, error)
}

// Ways are all ways.
var Ways = []Way{{"Do", do}, {"DoTx", doTx}, {"BeginFunc", beginFunc}, {"DoStatement", doStatement}}

func told(r dedup.Result[result], err error) (Told, error) {
	return Told{r.Value.Run, r.Replayed}, err
}

func do(ctx context.Context, c *Caller, job Job) (Told, error) {
	return told(dedup.Do(ctx, c.D, job.Call, job.effect))
}

// doTx is DoTx in a transaction that the caller commits, even if the effect failed.
func doTx(ctx context.Context, c *Caller, job Job) (Told, error) {
	tx, err := c.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return Told{}, ownError{err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	r, failed := dedup.DoTx(ctx, c.D, tx, job.Call, job.effect)
	if failed != nil && !effectFailed(failed) {
		if tx.Conn().IsClosed() {
			failed = ownError{failed}
		}
		return Told{}, failed
	}
	if err := tx.Commit(ctx); err != nil {
		return Told{}, ownError{err}
	}
	return told(r, failed)
}

func beginFunc(ctx context.Context, c *Caller, job Job) (Told, error) {
	var r dedup.Result[result]
	err := c.D.BeginFunc(ctx, func(tx pgx.Tx) (err error) {
		r, err = dedup.DoTx(ctx, c.D, tx, job.Call, job.effect)
		return err
	})
	return told(r, err)
}

func doStatement(ctx context.Context, c *Caller, job Job) (Told, error) {
	return told(dedup.DoStatement[result](ctx, c.D, job.Call, dedup.SQL(statementSQL, job.Call.Key, job.caller, job.fails)))
}

// ownError is an error of the caller's BEGIN or COMMIT, or of its connection.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }
