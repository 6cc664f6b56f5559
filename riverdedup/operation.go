package riverdedup

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tooldedup/dedup/external"
)

// OperationArgs name an operation of package external: the arguments of the job that
// [Worker] works. It holds nothing of the tool's input.
type OperationArgs struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	Key   string `json:"key"`
}

// Kind implements [river.JobArgs].
func (OperationArgs) Kind() string { return "dedup_operation" }

// InsertOpts implements [river.JobArgsWithInsertOpts]. An operation has one job at a time. One
// that is completed is no hindrance: the operation may be forgotten before River deletes
// the job, and its key be used anew.
func (OperationArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{
		ByArgs: true,
		ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
			rivertype.JobStateRunning, rivertype.JobStateScheduled,
		},
	}}
}

// Enqueue returns a function for [external.Options.Enqueue], which inserts a job for
// [Worker]. An insert-only client will do.
//
// For another queue or priority, write the function yourself: it is InsertTx with
// [OperationArgs], whose own options keep the job unique.
func Enqueue(client *river.Client[pgx.Tx]) func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
	return func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		_, err := client.InsertTx(ctx, tx, OperationArgs{Scope: op.Scope, Tool: op.Tool, Key: op.Key}, nil)
		return err
	}
}
