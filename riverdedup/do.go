package riverdedup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tooldedup/dedup"
)

// Do runs a job's effect once and completes the job, in one transaction. Return its error from
// Work:
//
//	func (w *AddPoints) Work(ctx context.Context, job *river.Job[AddPointsArgs]) error {
//		return riverdedup.Do(ctx, w.d, job.Args.Customer, job, func(ctx context.Context, tx pgx.Tx) error {
//			…
//		})
//	}
//
// [river.JobCompleteTx] alone does not do this. If River rescues a job that is still running, the
// job takes effect twice, because completing a completed job is not an error. Here the record
// decides. Its identity is scope, the job's kind, and [Key]: the job's id with its time of
// insertion. A job that was inserted twice is two jobs: use River's unique jobs, or [dedup.Do] with
// a key of the intent.
//
// Call Do once in a Work. A second Do with the same scope is the same call: it returns nil, and
// does not run its effect. Put all writes into one effect, or use [dedup.Do] with a key for each.
//
// For a job that took effect before, Do returns nil, also if the answer is not kept
// ([dedup.ErrExpired]). River completes such a job if Work returns nil. A refusal ([dedup.Final])
// is recorded and cancels the job. So does any other answer that no retry changes
// ([dedup.IsAnswer]). River retries every other error.
//
// If River rescues a job that still runs, its next run waits for the first. If the first does not
// end in time, the job is snoozed, which costs no attempt. The wait is bounded by
// [dedup.Options].MaxWait, by default 10 seconds, and by half of the time that ctx has left. The job
// is also snoozed if ctx ends after a wait and before the effect begins.
func Do[A river.JobArgs](ctx context.Context, d *dedup.Deduper, scope string, job *river.Job[A], effect func(ctx context.Context, tx pgx.Tx) error) error {
	call := dedup.Call{Scope: scope, Tool: job.Kind, Key: Key(job), Args: json.RawMessage(job.EncodedArgs), MaxWait: maxWait(ctx, d)}
	began := false
	result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (struct{}, error) {
		began = true
		if err := effect(ctx, tx); err != nil {
			return struct{}{}, err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return struct{}{}, err
	})
	switch {
	case tookEffect(call, err):
		return nil // the earlier run left the job open, because River had rescued it
	case dedup.IsAnswer(err):
		return river.JobCancel(err)
	case errors.Is(err, dedup.ErrInFlight), err != nil && ctx.Err() != nil && result.Waited > 0 && !began:
		return river.JobSnooze(twinPause)
	}
	return err
}

// maxWait returns how long a run waits for a twin. It leaves half of the job's time for the effect,
// which runs if the twin fails.
func maxWait(ctx context.Context, d *dedup.Deduper) time.Duration {
	wait := defaultMaxWait
	if d != nil { // else dedup.Do refuses it
		wait = cmp.Or(d.Options().MaxWait, wait)
	}
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	return wait
}

// defaultMaxWait is shorter than River's default timeout of a job, which is a minute.
const defaultMaxWait = 10 * time.Second

// tookEffect reports whether err means that an earlier run of the job took effect, and that its
// answer is not kept. The same error of another call is no such answer.
func tookEffect(call dedup.Call, err error) bool {
	expired, ok := errors.AsType[*dedup.Error](err)
	return ok && expired.Kind == dedup.ErrExpired && !expired.Refused && expired.Tool == call.Tool && expired.KeyHash == dedup.KeyHash(call.Key)
}

// twinPause is how long a job is snoozed after Do has waited for a twin in vain.
const twinPause = time.Second

// Key returns the key that [Do] uses for a job, for [dedup.Deduper.Lookup] and Reset. It includes
// the time of insertion, because ids start at 1 again if River's tables are created anew.
func Key[A river.JobArgs](job *river.Job[A]) string {
	return fmt.Sprintf("job %d of %s", job.ID, job.CreatedAt.UTC().Format(time.RFC3339Nano))
}
