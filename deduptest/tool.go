package deduptest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// Tool is a write tool for [Verify].
type Tool struct {
	// Name distinguishes tools, in reports and for [Child].
	Name string

	// Call calls the tool once, as its users do, and returns its answer: the Value of a
	// dedup.Result, not the Result. It may be any code that uses Try.Deduper: dedup.Do, DoTx in a
	// transaction of Try.Pool, a handler. It must be safe for concurrent use and keep nothing
	// between calls. It may wrap errors, but errors.Is and dedup.IsRetryable must recognize them.
	// If the tool keeps no answers (dedup.Retention), a later call must return the *dedup.Error of
	// dedup.ErrExpired, or an error that wraps it. A tool that keeps the answer must return it.
	//
	// With a new key it must succeed, whatever calls came before.
	Call func(ctx context.Context, try Try) (answer any, err error)

	// Count returns the number of effects in the database, of all calls ever made: usually a SELECT
	// count(*), or a sum that each effect raises by one. Nothing else may write to the counted rows
	// while Verify runs.
	Count func(ctx context.Context, db *pgxpool.Pool) (int, error)

	// Tables are further tables that the tool inserts into, such as "audit_log" or "billing.lines",
	// so that Verify finds inserts that Count does not see. It counts their rows, and so finds no
	// update: let Count see that. Each effect must add as many rows to a table as the first call
	// does, possibly none. Nothing else may write to them while Verify runs. Default: none.
	Tables []string

	// Options are the options of the tool's Deduper in production. [NotExecuted] and [AnswerLost]
	// use them twice: unchanged, and with Retry.MaxAttempts 1. Default: nil.
	Options *dedup.Options

	// Configure changes the configuration of the tool's pools, for instance to register types.
	// Default: nil.
	Configure func(*pgxpool.Config)
}

// Try is one call that [Verify] makes.
type Try struct {
	// Deduper is the Deduper for the call. Two calls may get different ones, as in two processes.
	Deduper *dedup.Deduper
	// Pool is the Deduper's pool. Statements on other connections meet no faults.
	Pool *pgxpool.Pool
	// Key is the call's key. Use it unchanged.
	Key string
	// Variant selects the arguments: equal for equal variants, and different for different ones.
	// For instance, make a title or an amount from it. It is 0, except in [OtherArguments].
	Variant int
}

// with returns the tool with changed options.
func (t Tool) with(change func(*dedup.Options)) Tool {
	var options dedup.Options
	if t.Options != nil {
		options = *t.Options
	}
	change(&options)
	t.Options = &options
	return t
}

// records returns the name of the table of the tool's records, for SQL.
func (t Tool) records() string {
	table := pgx.Identifier{"public", "tool_dedup"}
	if t.Options != nil && t.Options.Schema != "" {
		table[0] = t.Options.Schema
	}
	return table.Sanitize()
}

// check returns an error if a field is missing.
func (t Tool) check() error {
	switch {
	case t.Name == "":
		return errors.New("Tool.Name is empty; name the tool")
	case t.Call == nil:
		return errors.New("Tool.Call is nil; it must call the tool once")
	case t.Count == nil:
		return errors.New("Tool.Count is nil; it must count the tool's effects in the database")
	}
	return nil
}
