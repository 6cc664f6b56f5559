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

func TestRolledBack(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{})
	_, err := p.order(t.Context(), 1, errRolledBack)
	require.ErrorIs(t, err, errRolledBack)
	require.Zero(t, count(t, pool, `SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM tool_effect) + (SELECT count(*) FROM river_job)`))

	_, err = p.order(t.Context(), 2, nil)
	require.NoError(t, err)
	events.until(river.EventKindJobCompleted)
	require.Zero(t, smtp.sentFor(1))
	require.Equal(t, 1, smtp.sentFor(2))
}

func TestSentTwice(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{})
	for range 2 {
		_, err := p.order(t.Context(), 1, nil)
		require.NoError(t, err)
	}
	events.until(river.EventKindJobCompleted)
	op, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, external.Done, op.State)
	require.Equal(t, 1, smtp.sentFor(1))
	require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM river_job`))
}

// TestUnique inserts jobs by hand: one at a time is there for an operation, and another one
// when it is completed, because a key may be used anew.
func TestUnique(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	p, err := newProcess(pool, mailTool(smtp.URL, true), nil, &river.Config{})
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

	working, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{})
	events.until(river.EventKindJobCompleted)
	_, err = pool.Exec(t.Context(), `DELETE FROM tool_effect; DELETE FROM tool_dedup`) // as if its time was over
	require.NoError(t, err)
	_, err = working.order(t.Context(), 1, nil)
	require.NoError(t, err)
	events.until(river.EventKindJobCompleted)
	require.Equal(t, external.Done, working.lookup(t, 1).State)
	require.Equal(t, 2, count(t, pool, `SELECT count(*) FROM river_job`))
}

// TestInsideAnEffect accepts in the transaction of a write tool.
func TestInsideAnEffect(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{})
	call := callOf(1)
	call.Tool = "place_order"
	for range 2 {
		_, err := dedup.Do(t.Context(), p.d, call, func(ctx context.Context, tx pgx.Tx) (bool, error) {
			if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES (1)`); err != nil {
				return false, err
			}
			_, err := p.mail.Accept(ctx, tx, callOf(1), mail{Order: 1})
			return true, err
		})
		require.NoError(t, err)
	}
	events.until(river.EventKindJobCompleted)
	require.Equal(t, 1, smtp.sentFor(1))
	require.Equal(t, 1, count(t, pool, `SELECT count(*) FROM river_job`))
}

func TestSnooze(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	var asked atomic.Int32
	smtp.before = func(int) int {
		if asked.Add(1) == 1 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{MaxAttempts: 1})
	_, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobSnoozed, events.next().Kind)
	job := events.until(river.EventKindJobCompleted)
	require.Equal(t, 1, job.Attempt)
	require.Empty(t, job.Errors)
	require.Equal(t, 1, smtp.sentFor(1))
}

// TestLongTimeout lets River's timeout end a job while the attempt goes on: nothing is sent
// again, and no attempt of the job is used up.
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
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{MaxAttempts: 1, JobTimeout: 10 * time.Second})
	_, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobSnoozed, events.next().Kind)
	close(release)
	job := events.until(river.EventKindJobCompleted)
	require.Empty(t, job.Errors)
	require.EqualValues(t, 1, requests.Load())
}

func TestRefused(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	smtp.before = func(int) int { return http.StatusUnprocessableEntity }
	p, events := start(t, pool, mailTool(smtp.URL, true), &river.Config{})
	_, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	require.Equal(t, river.EventKindJobCompleted, events.next().Kind)
	_, err = p.mail.Do(t.Context(), callOf(1), mail{Order: 1})
	require.ErrorIs(t, err, dedup.ErrRefused)
}

// TestParked loses an answer that nobody can find out about. The job is cancelled, and a
// person's verdict ends the operation.
func TestParked(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	smtp.after = func(int) int { return lost }
	p, events := start(t, pool, mailTool(smtp.URL, false), &river.Config{})
	_, err := p.order(t.Context(), 1, nil)
	require.NoError(t, err)
	event := events.next()
	require.Equal(t, river.EventKindJobCancelled, event.Kind)
	require.Equal(t, rivertype.JobStateCancelled, event.Job.State)
	require.Contains(t, event.Job.Errors[0].Error, "do not repeat it with a new key")
	op := p.lookup(t, 1)
	require.Equal(t, external.Parked, op.State)

	require.NoError(t, p.tools.Resolve(t.Context(), op, external.Happened(sent{ID: "mail_1"}, "the customer has it")))
	result, err := p.mail.Do(t.Context(), callOf(1), mail{Order: 1})
	require.NoError(t, err)
	require.Equal(t, "mail_1", result.Value.ID)
	require.Equal(t, 1, smtp.sentFor(1))
}

// TestNotRegistered is a worker of an older release, which does not know the tool yet.
func TestNotRegistered(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	p, events := start(t, pool, mailTool("", true), &river.Config{})
	_, err := p.client.Insert(t.Context(), riverdedup.OperationArgs{Scope: "acme", Tool: "send_fax", Key: "k"}, nil)
	require.NoError(t, err)
	event := events.next()
	require.Equal(t, river.EventKindJobFailed, event.Kind)
	require.Equal(t, rivertype.JobStateAvailable, event.Job.State, "retried")
	require.Contains(t, event.Job.Errors[0].Error, "is not registered here")
}
