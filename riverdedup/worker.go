package riverdedup

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/tooldedup/dedup/external"
)

// Worker works the jobs that [Enqueue] inserts. Add it to the client's workers, and set
// Tools before the client is started.
//
// The job ends with its operation: it completes when there is an answer, a refusal included,
// and is cancelled with an [external.ParkedError] when only a person can say what
// became of it. Before that it is snoozed until something is due. Only a fault of the
// database, or a tool that is not registered in Tools, counts as a failed attempt.
type Worker struct {
	river.WorkerDefaults[OperationArgs]

	// Tools must have the tools of all operations that are enqueued.
	Tools *external.Tools
}

// Work implements [river.Worker].
func (w *Worker) Work(ctx context.Context, job *river.Job[OperationArgs]) error {
	op, err := w.Tools.Advance(ctx, job.Args.Scope, job.Args.Tool, job.Args.Key)
	switch {
	case op.State == external.Parked:
		return river.JobCancel(&external.ParkedError{Operation: op})
	case err != nil && ctx.Err() == nil:
		return err
	case err == nil && (op.State == external.Done || op.State == external.None):
		return nil
	}
	// Also when River's timeout or the client's stop has ended ctx: the attempt goes on, and
	// its lease keeps the next job from another one.
	return river.JobSnooze(max(op.Due.Sub(op.Now), 0))
}
