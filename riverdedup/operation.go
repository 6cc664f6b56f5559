package riverdedup

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tooldedup/dedup/external"
)

// OperationArgs are the arguments of the job that [Worker] works. They name an operation of package
// external, without its input.
type OperationArgs struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	Key   string `json:"key"`
}

// Kind implements [river.JobArgs].
func (OperationArgs) Kind() string { return "dedup_operation" }

// InsertOpts implements [river.JobArgsWithInsertOpts]. An operation has one job at a time. A
// completed job does not prevent another one: the operation may be forgotten, and its key used
// anew, before River deletes the job.
func (OperationArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
			rivertype.JobStateRunning, rivertype.JobStateScheduled,
		},
	}}
}

// Enqueue returns a function for [external.Options.Enqueue] that inserts a job for [Worker]. An
// insert-only client is enough.
//
// For another queue or priority, write the function with InsertTx and [OperationArgs]. The options
// of OperationArgs keep the job unique.
func Enqueue(client *river.Client[pgx.Tx]) func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
	return func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		_, err := client.InsertTx(ctx, tx, OperationArgs{Scope: op.Scope, Tool: op.Tool, Key: op.Key}, nil)
		return err
	}
}
