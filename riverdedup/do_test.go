package riverdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/riverdedup"
)

type pointsArgs struct {
	Customer string `json:"customer"`
	Points   int    `json:"points"`
}

func (pointsArgs) Kind() string { return "add_points" }

// points is a worker whose work the test provides.
type points struct {
	river.WorkerDefaults[pointsArgs]
	work func(ctx context.Context, job *river.Job[pointsArgs]) error
}

func (w *points) Work(ctx context.Context, job *river.Job[pointsArgs]) error { return w.work(ctx, job) }

func addPoints(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `INSERT INTO points VALUES (5)`)
	return err
}

// workPoints starts a client that works jobs.
func workPoints(t *testing.T, pool *pgxpool.Pool, work func(ctx context.Context, job *river.Job[pointsArgs]) error) (*process, *events) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `CREATE TABLE IF NOT EXISTS points (points int)`)
	require.NoError(t, err)
	workers := river.NewWorkers()
	river.AddWorker(workers, &points{work: work})
	// One job at a time, so that another client gets a rescued job.
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}
	return start(t, pool, "", &river.Config{Workers: workers, Queues: queues})
}

func (p *process) insertPoints(t *testing.T, customer string) {
	t.Helper()
	_, err := p.client.Insert(t.Context(), pointsArgs{Customer: customer, Points: 5}, nil)
	require.NoError(t, err)
}

// TestDo completes the job together with its writes and the record. A refusal cancels it. A failed
// effect leaves nothing, and River runs the job again.
func TestDo(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	keys := make(chan string, 1)
	p, events := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
		do := func(effect func(ctx context.Context, tx pgx.Tx) error) error {
			return riverdedup.Do(ctx, d, job.Args.Customer, job, func(ctx context.Context, tx pgx.Tx) error {
				return errors.Join(addPoints(ctx, tx), effect(ctx, tx))
			})
		}
		switch job.Args.Customer {
		case "refused":
			return do(func(context.Context, pgx.Tx) error { return dedup.Final(errors.New("no such customer")) })
		case "fails":
			return do(func(context.Context, pgx.Tx) error {
				if job.Attempt > 1 {
					return nil
				}
				return errors.New("out of memory")
			})
		}
		keys <- riverdedup.Key(job)
		for range 2 { // the second is the same call, as if the job ran again
			if err := do(func(ctx context.Context, tx pgx.Tx) error {
				var state string
				err := tx.QueryRow(ctx, `SELECT state FROM river_job WHERE id = $1`, job.ID).Scan(&state)
				if err == nil && state != "running" {
					err = errors.New("the job is " + state)
				}
				return err
			}); err != nil {
				return err
			}
		}
		return errors.New("what is committed stays completed")
	})
	points := func() int { return count(t, pool, `SELECT count(*) FROM points`) }

	p.insertPoints(t, "acme")
	job := events.until(river.EventKindJobCompleted)
	require.Equal(t, rivertype.JobStateCompleted, job.State)
	require.Equal(t, 1, points())
	status, err := d.Lookup(t.Context(), "acme", "add_points", <-keys)
	require.NoError(t, err)
	require.Equal(t, dedup.StateDone, status.State)

	p.insertPoints(t, "refused")
	event := events.next()
	require.Equal(t, river.EventKindJobCancelled, event.Kind)
	require.Contains(t, event.Job.Errors[0].Error, "no such customer")
	require.Equal(t, 1, points())

	p.insertPoints(t, "fails")
	require.Equal(t, river.EventKindJobFailed, events.next().Kind)
	job = events.until(river.EventKindJobCompleted)
	require.Equal(t, 2, job.Attempt)
	require.Equal(t, 2, points())
}

// TestDoOfARescuedJob runs a job again while it runs, as River does with a job that it considers
// stuck. The control uses River's own means.
func TestDoOfARescuedJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(ctx context.Context, d *dedup.Deduper, job *river.Job[pointsArgs], effect func(ctx context.Context, tx pgx.Tx) error) error
		rows int
	}{
		"Do": {func(ctx context.Context, d *dedup.Deduper, job *river.Job[pointsArgs], effect func(ctx context.Context, tx pgx.Tx) error) error {
			return riverdedup.Do(ctx, d, job.Args.Customer, job, effect)
		}, 1},
		"ControlJobCompleteTx": {func(ctx context.Context, d *dedup.Deduper, job *river.Job[pointsArgs], effect func(ctx context.Context, tx pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error {
				if err := effect(ctx, tx); err != nil {
					return err
				}
				_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
				return err
			})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newDatabase(t)
			d, err := dedup.New(pool, nil)
			require.NoError(t, err)
			entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
			p, _ := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
				err := c.do(ctx, d, job, func(ctx context.Context, tx pgx.Tx) error {
					close(entered)
					<-release
					return addPoints(ctx, tx)
				})
				ended <- err
				return err
			})
			p.insertPoints(t, "acme")
			<-entered
			_, err = pool.Exec(t.Context(), `UPDATE river_job SET state = 'available'`) // River's rescuer
			require.NoError(t, err)
			began := make(chan struct{})
			_, _ = workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
				close(began)
				err := c.do(ctx, d, job, addPoints)
				ended <- err
				return err
			})
			<-began
			if c.rows == 2 { // the second does not wait
				require.NoError(t, <-ended)
			}
			close(release)
			require.NoError(t, <-ended)
			if c.rows == 1 {
				require.NoError(t, <-ended)
			}
			require.Equal(t, c.rows, count(t, pool, `SELECT count(*) FROM points`))
			require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM river_job WHERE state = 'completed'`))
		})
	}
}

// TestDoAfterARescue rescues a job before it commits. Its transaction cannot complete the job, so
// River runs it again, and the record of the first run has no answer.
func TestDoAfterARescue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result  time.Duration
		refusal error
		kind    river.EventKind
		points  int
	}{
		"NotKept":        {-1, nil, river.EventKindJobCompleted, 1},
		"Expired":        {time.Hour, nil, river.EventKindJobCompleted, 1},
		"RefusedNotKept": {-1, errors.New("no such customer"), river.EventKindJobCancelled, 0},
		"RefusedExpired": {time.Hour, errors.New("no such customer"), river.EventKindJobCancelled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newDatabase(t)
			d, err := dedup.New(pool, &dedup.Options{Retention: dedup.Retention{Result: c.result}})
			require.NoError(t, err)
			do := func(ctx context.Context, job *river.Job[pointsArgs]) error {
				return riverdedup.Do(ctx, d, job.Args.Customer, job, func(ctx context.Context, tx pgx.Tx) error {
					return errors.Join(addPoints(ctx, tx), dedup.Final(c.refusal))
				})
			}
			ended, over := make(chan error, 1), make(chan struct{})
			p, _ := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
				_, err := pool.Exec(ctx, `UPDATE river_job SET state = 'available'`) // River's rescuer
				err = errors.Join(err, do(ctx, job))
				ended <- err
				<-over // River does not learn how the run ended
				return err
			})
			defer close(over)
			p.insertPoints(t, "acme")
			require.Equal(t, c.refusal == nil, <-ended == nil)
			require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM river_job WHERE state = 'available'`))
			_, err = pool.Exec(t.Context(), `UPDATE tool_dedup SET expires_at = least(expires_at, created_at)`)
			require.NoError(t, err)

			_, events := workPoints(t, pool, do)
			require.Equal(t, c.kind, events.next().Kind)
			require.Equal(t, c.points, count(t, pool, `SELECT count(*) FROM points`))
		})
	}
}

// TestSecondDoInAWork is the same call as the first: its effect does not run.
func TestSecondDoInAWork(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	seconds := make(chan error, 1)
	p, events := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
		if err := riverdedup.Do(ctx, d, "acme", job, addPoints); err != nil {
			return err
		}
		seconds <- riverdedup.Do(ctx, d, "acme", job, func(context.Context, pgx.Tx) error { return errors.New("it ran") })
		return nil
	})
	p.insertPoints(t, "acme")
	events.until(river.EventKindJobCompleted)
	require.NoError(t, <-seconds)
	require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM points`))
}

// TestWorkThatFollows fails after a Do for which an earlier run took effect. The job is still open,
// so River runs it again.
func TestWorkThatFollows(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	p, events := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
		if job.Attempt == 1 { // as an earlier run whose job River had rescued
			call := dedup.Call{Scope: "acme", Tool: job.Kind, Key: riverdedup.Key(job), Args: json.RawMessage(job.EncodedArgs)}
			if _, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (struct{}, error) { return struct{}{}, addPoints(ctx, tx) }); err != nil {
				return err
			}
		}
		err := riverdedup.Do(ctx, d, "acme", job, addPoints)
		if err == nil && job.Attempt == 1 {
			err = errors.New("work that follows")
		}
		return err
	})
	p.insertPoints(t, "acme")
	event := events.next()
	require.Equal(t, river.EventKindJobFailed, event.Kind)
	require.Contains(t, event.Job.Errors[0].Error, "work that follows")
	require.Equal(t, 2, events.until(river.EventKindJobCompleted).Attempt)
	require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM points`))
}

// canceler cancels a context when a call begins to wait for a twin.
type canceler struct {
	dedup.Tracer
	cancel atomic.Pointer[context.CancelFunc]
}

func (c *canceler) TraceEvent(_ context.Context, event dedup.Event) {
	cancel := c.cancel.Load()
	if _, ok := event.(dedup.WaitStartData); ok && cancel != nil {
		(*cancel)()
	}
}

// TestDoWhileATwinRuns gives up waiting for a twin. The job is snoozed, although it has no attempt
// left.
func TestDoWhileATwinRuns(t *testing.T) {
	t.Parallel()
	stop := &canceler{Tracer: dedup.MultiTracer()}
	for name, c := range map[string]struct {
		opts dedup.Options
		// limit returns the context of the run that waits.
		limit func(ctx context.Context) (context.Context, context.CancelFunc)
	}{
		"MaxWait": {dedup.Options{MaxWait: -1}, context.WithCancel},
		"Timeout": {dedup.Options{}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}},
		"TimeoutBeforeMaxWait": {dedup.Options{MaxWait: time.Hour}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}},
		"ContextEnds": {dedup.Options{Tracer: stop}, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			stop.cancel.Store(&cancel)
			return ctx, cancel
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newDatabase(t)
			d, err := dedup.New(pool, &c.opts)
			require.NoError(t, err)
			var runs atomic.Int32
			running, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			finish := sync.OnceFunc(func() { close(release) })
			p, events := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
				if runs.Add(1) > 1 {
					return riverdedup.Do(ctx, d, "acme", job, addPoints)
				}
				go func() {
					ended <- riverdedup.Do(ctx, d, "acme", job, func(ctx context.Context, tx pgx.Tx) error {
						close(running)
						<-release
						return addPoints(ctx, tx)
					})
				}()
				<-running
				limited, cancel := c.limit(ctx)
				defer cancel()
				return riverdedup.Do(limited, d, "acme", job, addPoints)
			})
			defer finish()
			_, err = p.client.Insert(t.Context(), pointsArgs{Customer: "acme", Points: 5}, &river.InsertOpts{MaxAttempts: 1})
			require.NoError(t, err)
			require.Equal(t, river.EventKindJobSnoozed, events.next().Kind)
			finish()
			<-ended // its context has ended
			events.until(river.EventKindJobCompleted)
			require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM points`))
		})
	}
}

// TestDoTimesOut counts an attempt if the effect itself outlasts the job's context, also without a
// twin.
func TestDoTimesOut(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	p, events := workPoints(t, pool, func(ctx context.Context, job *river.Job[pointsArgs]) error {
		if job.Attempt > 1 {
			return riverdedup.Do(ctx, d, "acme", job, addPoints)
		}
		ctx, cancel := context.WithCancel(ctx)
		return riverdedup.Do(ctx, d, "acme", job, func(ctx context.Context, _ pgx.Tx) error {
			cancel()
			return ctx.Err()
		})
	})
	p.insertPoints(t, "acme")
	require.Equal(t, river.EventKindJobFailed, events.next().Kind)
	events.until(river.EventKindJobCompleted)
	require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM points`))
}
