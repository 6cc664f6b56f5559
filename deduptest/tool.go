package deduptest

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// Tool is what [Verify] tries.
type Tool struct {
	// Name tells tools apart, in reports and for [Child].
	Name string

	// Call calls the tool once, just as its users would, and returns its answer:
	// the Value of a dedup.Result, never the Result itself. It may be any code over
	// Try.Deduper: dedup.Do, DoTx in a transaction of Try.Pool, a handler. It must
	// be safe for concurrent use and keep nothing between calls. Errors come as they
	// are or wrapped, so that errors.Is and dedup.IsRetryable know them.
	//
	// Called with a key that is new it must succeed, whatever was called before.
	Call func(ctx context.Context, try Try) (answer any, err error)

	// Count returns how many effects there are in the database, of all calls ever
	// made: mostly a SELECT count(*), or a sum that one effect raises by one.
	// Nothing else may write to what it counts while Verify runs.
	Count func(ctx context.Context, db *pgxpool.Pool) (int, error)

	// Tables are further tables that the tool writes to, such as "audit_log" or "billing.lines":
	// a write that Count does not read is found there. Each effect must add as many rows to a
	// table as the first call does, which may be none. Nothing else may write to them while
	// Verify runs. Default none.
	Tables []string

	// Options are those that the tool's Deduper has in production. Default nil.
	// [NotExecuted] and [AnswerLost] use them twice: as they are, and with
	// Retry.MaxAttempts 1.
	Options *dedup.Options

	// Configure changes the configuration of the pools that the tool gets, to
	// register types for instance. Default nil.
	Configure func(*pgxpool.Config)
}

// Try is one call that [Verify] makes.
type Try struct {
	// Deduper is to be used for the call. Two calls may get different ones, as in
	// two processes.
	Deduper *dedup.Deduper
	// Pool is the Deduper's pool. What the tool sends by any other way meets no
	// faults.
	Pool *pgxpool.Pool
	// Key is the call's key, to be used as it is.
	Key string
	// Variant chooses the arguments: they are the same for the same Variant, and
	// others for another one. An argument such as a title or an amount may be made
	// of it. It is 0 but for the calls of [OtherArguments].
	Variant int
}

// with returns the tool with a Deduper whose options are changed.
func (t Tool) with(change func(*dedup.Options)) Tool {
	var options dedup.Options
	if t.Options != nil {
		options = *t.Options
	}
	change(&options)
	t.Options = &options
	return t
}

// check says what is missing.
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
