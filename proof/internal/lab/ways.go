package lab

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Job is a call and its effect, one statement with an answer.
type Job struct {
	Call dedup.Call
	SQL  string
	Args []any
	// Then runs after the statement if the effect is a function. Nil does nothing.
	Then func(ctx context.Context, tx pgx.Tx) error
}

// NewJob is the job of a key whose effect is [Effect].
func NewJob(key string) Job { return Job{Call: Call(key), SQL: Effect, Args: []any{key}} }

func (j Job) run(ctx context.Context, tx pgx.Tx) (a Answer, err error) {
	if err = tx.QueryRow(ctx, j.SQL, j.Args...).Scan(&a.Run); err == nil && j.Then != nil {
		err = j.Then(ctx, tx)
	}
	return a, err
}

func (j Job) statement() dedup.StatementCall {
	return dedup.StatementCall{Call: j.Call, Statement: dedup.SQL(j.SQL, j.Args...)}
}

// Told is an answer to a job.
type Told struct {
	Job                 int // its index
	Run                 int64
	Created             time.Time
	Replayed, Recovered bool
}

func told(job int, r dedup.Result[Answer]) Told {
	return Told{job, r.Value.Run, r.CreatedAt, r.Replayed, r.Recovered}
}

// OwnError is an error of the caller's BEGIN or COMMIT, or of its connection.
type OwnError struct{ error }

// Unwrap returns the cause.
func (e OwnError) Unwrap() error { return e.error }

// Errors are the errors of some jobs of a batch. Other jobs may have answers.
type Errors []error

func (e Errors) Error() string { return errors.Join(e...).Error() }

// Unwrap returns the errors.
func (e Errors) Unwrap() []error { return e }

// Way is a way to make calls. DoBatch may answer some jobs and fail others: it returns both answers
// and [Errors].
type Way struct {
	Name string
	Many bool
	Make func(ctx context.Context, c *Client, jobs []Job) ([]Told, error)
}

// Ways are the ways to call.
var Ways = []Way{
	{"Do", false, do}, {"DoTx", false, doTx}, {"DoStatement", false, doStatement}, {"DoBatch", true, doBatch}, {TxOfSeveral, true, doTx},
}

// TxOfSeveral is the name of the way with several calls in one transaction of the caller's.
const TxOfSeveral = "DoTx of several"

func do(ctx context.Context, c *Client, jobs []Job) ([]Told, error) {
	r, err := dedup.Do(ctx, c.D, jobs[0].Call, jobs[0].run)
	if err != nil {
		return nil, err
	}
	return []Told{told(0, r)}, nil
}

// doTx makes all calls in one transaction, so all or none has an effect. An answer counts after the
// answer to COMMIT.
func doTx(ctx context.Context, c *Client, jobs []Job) (answers []Told, err error) {
	tx, err := c.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, OwnError{err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	for i, j := range jobs {
		r, err := dedup.DoTx(ctx, c.D, tx, j.Call, j.run)
		switch {
		case err != nil && tx.Conn().IsClosed():
			return nil, OwnError{err}
		case err != nil:
			return nil, err
		}
		answers = append(answers, told(i, r))
	}
	if c.BeforeCommit != nil {
		if err := c.BeforeCommit(answers); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, OwnError{err}
	}
	return answers, nil
}

func doStatement(ctx context.Context, c *Client, jobs []Job) ([]Told, error) {
	one := jobs[0].statement()
	r, err := dedup.DoStatement[Answer](ctx, c.D, one.Call, one.Statement)
	if err != nil {
		return nil, err
	}
	return []Told{told(0, r)}, nil
}

func doBatch(ctx context.Context, c *Client, jobs []Job) (answers []Told, err error) {
	var errs Errors
	calls := make([]dedup.StatementCall, len(jobs))
	for i, j := range jobs {
		calls[i] = j.statement()
	}
	for o := range dedup.DoBatch[Answer](ctx, c.D, slices.Values(calls), nil) {
		if o.Err != nil {
			errs = append(errs, o.Err)
			continue
		}
		answers = append(answers, told(o.Index, o.Result))
	}
	if len(errs) > 0 {
		err = errs
	}
	return answers, err
}

// Plain makes all calls in one plain transaction without dedup. A control repeats it after any
// error.
var Plain = Way{"without dedup", true, func(ctx context.Context, c *Client, jobs []Job) ([]Told, error) {
	answers := make([]Told, len(jobs))
	err := c.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for i, j := range jobs {
			a, err := j.run(ctx, tx)
			if err != nil {
				return err
			}
			answers[i] = Told{Job: i, Run: a.Run}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}}

// Caller makes one try of a call and returns the run of its effect.
type Caller func(ctx context.Context, c *Client, key string) (int64, error)

// Do is a Caller by [dedup.Do].
func Do(ctx context.Context, c *Client, key string) (int64, error) { return By(Ways[0])(ctx, c, key) }

// By returns a Caller of a way.
func By(w Way) Caller {
	return func(ctx context.Context, c *Client, key string) (int64, error) {
		answers, err := w.Make(ctx, c, []Job{NewJob(key)})
		if err != nil {
			return 0, err
		}
		return answers[0].Run, nil
	}
}
