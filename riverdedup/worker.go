package riverdedup

import (
	"context"

	"github.com/riverqueue/river"

	"github.com/tooldedup/dedup/external"
)

// Worker works the jobs that [Enqueue] inserts. Add it to the client's workers, and set Tools
// before the client starts.
//
// The job completes when the operation has an answer, also a refusal. It is cancelled with an
// [external.ParkedError] if only a person can find out the outcome. Until then it is snoozed to the
// time of the next act. Only an error of the database, or a tool that is not registered in Tools,
// counts as a failed attempt.
type Worker struct {
	river.WorkerDefaults[OperationArgs]

	// Tools must have the tools of all enqueued operations.
	Tools *external.Tools
}

// Work implements [river.Worker].
func (w *Worker) Work(ctx context.Context, job *river.Job[OperationArgs]) error {
	op, err := w.Tools.Advance(ctx, job.Args.Scope, job.Args.Tool, job.Args.Key)
	switch {
	case op.State == external.StateParked:
		return river.JobCancel(&external.ParkedError{Operation: op})
	case err != nil && ctx.Err() == nil:
		return err
	case err == nil && (op.State == external.StateDone || op.State == external.StateNone):
		return nil
	}
	// Snooze also if River's timeout or the client's stop ended ctx: the attempt goes on, and
	// its lease prevents another attempt by the next job.
	return river.JobSnooze(max(op.Due.Sub(op.Now), 0))
}
