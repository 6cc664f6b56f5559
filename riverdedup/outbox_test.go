package riverdedup_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/riverdedup"
)

var errRolledBack = errors.New("rolled back")

// TestOutbox accepts and works operations one after another.
func TestOutbox(t *testing.T) {
	t.Parallel()
	const rolledBack, twice, beside, inside, busy, refused, parked = 1, 2, 3, 4, 5, 6, 7
	pool := newDatabase(t)
	smtp := newProvider(t)
	var asked atomic.Int32
	smtp.before = func(order int) int {
		switch {
		case order == busy && asked.Add(1) == 1:
			return http.StatusTooManyRequests
		case order == refused:
			return http.StatusUnprocessableEntity
		}
		return 0
	}
	smtp.after = func(order int) int {
		if order == parked {
			return lost
		}
		return 0
	}
	p, events := start(t, pool, smtp.URL, &river.Config{MaxAttempts: 1})
	requireJobs := func(t *testing.T, order, jobs int) {
		t.Helper()
		require.Equal(t, jobs, smtp.sentFor(order))
		require.Equal(t, jobs, count(t, pool, `SELECT count(*) FROM river_job WHERE args ->> 'key' = $1`, callOf(order).Key))
	}

	_, err := p.order(t.Context(), rolledBack, errRolledBack)
	require.ErrorIs(t, err, errRolledBack)
	requireJobs(t, rolledBack, 0)
	require.Zero(t, count(t, pool, `SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM tool_effect)`))

	for range 2 {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := p.place(t.Context(), tx, p.mail, twice)
			_, other := p.place(t.Context(), tx, p.mail, beside)
			return errors.Join(err, other)
		}))
	}
	for range 2 {
		require.Equal(t, river.EventKindJobCompleted, events.next().Kind)
	}
	requireJobs(t, beside, 1)
	op, err := p.order(t.Context(), twice, nil)
	require.NoError(t, err)
	require.Equal(t, external.StateDone, op.State)
	requireJobs(t, twice, 1)

	// In the transaction of a write tool.
	call := callOf(inside)
	call.Tool = "place_order"
	for range 2 {
		_, err := dedup.Do(t.Context(), p.d, call, func(ctx context.Context, tx pgx.Tx) (bool, error) {
			_, err := p.place(ctx, tx, p.mail, inside)
			return true, err
		})
		require.NoError(t, err)
	}
	require.Equal(t, river.EventKindJobCompleted, events.next().Kind)
	requireJobs(t, inside, 1)

	// A job that must wait is snoozed, which does not count as an attempt.
	_, err = p.order(t.Context(), busy, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobSnoozed, events.next().Kind)
	job := events.until(river.EventKindJobCompleted)
	require.Equal(t, 1, job.Attempt)
	require.Empty(t, job.Errors)
	requireJobs(t, busy, 1)

	_, err = p.order(t.Context(), refused, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobCompleted, events.next().Kind)
	_, err = p.mail.Do(t.Context(), callOf(refused), mail{Order: refused})
	require.ErrorIs(t, err, dedup.ErrRefused)

	// A reply is lost and cannot be looked up. The job is cancelled, and a verdict ends
	// the operation.
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := p.place(t.Context(), tx, p.letter, parked)
		return err
	}))
	event := events.next()
	require.Equal(t, river.EventKindJobCancelled, event.Kind)
	require.Equal(t, rivertype.JobStateCancelled, event.Job.State)
	require.Contains(t, event.Job.Errors[0].Error, "do not repeat it with a new key")
	op = p.lookup(t, "send_letter", parked)
	require.Equal(t, external.StateParked, op.State)
	require.NoError(t, p.tools.Resolve(t.Context(), op, external.Happened(sent{ID: "letter 7"}, "the customer has it")))
	result, err := p.letter.Do(t.Context(), callOf(parked), mail{Order: parked})
	require.NoError(t, err)
	require.Equal(t, "letter 7", result.Value.ID)
	requireJobs(t, parked, 1)

	// The job of a forgotten operation completes.
	_, err = p.client.Insert(t.Context(), riverdedup.OperationArgs{Scope: "acme", Tool: "send_mail", Key: "forgotten"}, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobCompleted, events.next().Kind)

	// A worker of an older release lacks the tool.
	_, err = p.client.Insert(t.Context(), riverdedup.OperationArgs{Scope: "acme", Tool: "send_fax", Key: "k"}, &river.InsertOpts{MaxAttempts: 25})
	require.NoError(t, err)
	event = events.next()
	require.Equal(t, river.EventKindJobFailed, event.Kind)
	require.Equal(t, rivertype.JobStateAvailable, event.Job.State, "retried")
	require.Contains(t, event.Job.Errors[0].Error, "is not registered here")
}

// TestUnique inserts jobs by hand. An operation has one job at a time, and another one after it is
// completed, because a key may be used anew.
func TestUnique(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	p, err := newProcess(pool, smtp.URL, nil, &river.Config{})
	require.NoError(t, err)
	_, err = p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	args := riverdedup.OperationArgs{Scope: "acme", Tool: "send_mail", Key: callOf(1).Key}
	again, err := p.client.Insert(t.Context(), args, nil)
	require.NoError(t, err)
	require.True(t, again.UniqueSkippedAsDuplicate)
	again, err = p.client.Insert(t.Context(), args, &river.InsertOpts{Queue: "mails", Priority: 2})
	require.NoError(t, err)
	require.True(t, again.UniqueSkippedAsDuplicate)

	working, events := start(t, pool, smtp.URL, &river.Config{})
	events.until(river.EventKindJobCompleted)
	_, err = pool.Exec(t.Context(), `DELETE FROM tool_effect; DELETE FROM tool_dedup`) // as if both were forgotten
	require.NoError(t, err)
	_, err = working.order(t.Context(), 1, nil)
	require.NoError(t, err)
	events.until(river.EventKindJobCompleted)
	require.Equal(t, external.StateDone, working.lookup(t, "send_mail", 1).State)
	require.Equal(t, 2, count(t, pool, `SELECT count(*) FROM river_job`))
}

// TestLongTimeout ends a job by River's timeout while the attempt goes on. Nothing is sent again,
// and the job loses no attempt.
func TestLongTimeout(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	release := make(chan struct{})
	var requests atomic.Int32
	smtp.before = func(int) int {
		requests.Add(1)
		<-release
		return 0
	}
	p, events := start(t, pool, smtp.URL, &river.Config{MaxAttempts: 1, JobTimeout: 10 * time.Second})
	_, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobSnoozed, events.next().Kind)
	close(release)
	job := events.until(river.EventKindJobCompleted)
	require.Empty(t, job.Errors)
	require.EqualValues(t, 1, requests.Load())
}
