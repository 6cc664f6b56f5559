package riverdedup_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// asChild is the environment variable that makes the test program a worker process.
const asChild = "RIVERDEDUP_TEST_CHILD"

// child are the settings of a worker process.
type child struct {
	Database, Provider string
	// Dies is the probability that the process kills itself at a step of an operation.
	Dies float64
}

// runChild works jobs until the process is killed.
func runChild(settings string) error {
	var c child
	if err := json.Unmarshal([]byte(settings), &c); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, c.Database)
	if err != nil {
		return err
	}
	p, err := newProcess(pool, c.Provider, &dedup.Options{Tracer: mortal{dedup.MultiTracer(), c.Dies}}, rescuing())
	if err != nil {
		return err
	}
	if err := p.client.Start(ctx); err != nil {
		return err
	}
	select {}
}

// rescuing returns a configuration in which River considers a job stuck after an hour.
func rescuing() *river.Config {
	return &river.Config{JobTimeout: time.Minute, RescueStuckJobsAfter: time.Hour}
}

// mortal is a process that kills itself at a step with some probability.
type mortal struct {
	dedup.Tracer
	dies float64
}

func (m mortal) TraceEvent(_ context.Context, event dedup.Event) {
	if _, ok := event.(external.Event); ok && rand.Float64() < m.dies {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			_ = self.Kill()
		}
		select {}
	}
}

// spawn starts a worker process, which ends with ctx.
func spawn(ctx context.Context, t *testing.T, c child) (*exec.Cmd, error) {
	t.Helper()
	settings, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"="+string(settings))
	cmd.Stderr = t.Output()
	return cmd, cmd.Start()
}

// TestKilled kills a worker between sending and recording. River rescues its job, and the mail is
// not sent again.
func TestKilled(t *testing.T) {
	t.Parallel()
	pool := newDatabase(t)
	smtp := newProvider(t)
	gotten, hold := make(chan struct{}, 2), make(chan struct{})
	var answers atomic.Int32
	smtp.after = func(int) int {
		gotten <- struct{}{}
		if answers.Add(1) == 1 {
			<-hold // wait until the worker is killed
		}
		return 0
	}
	inserting, err := newProcess(pool, smtp.URL, nil, &river.Config{})
	require.NoError(t, err)
	_, err = inserting.order(t.Context(), 1, nil)
	require.NoError(t, err)
	worker, err := spawn(t.Context(), t, child{Database: pool.Config().ConnString(), Provider: smtp.URL})
	require.NoError(t, err)
	<-gotten
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	close(hold)
	require.Equal(t, external.StateRunning, inserting.lookup(t, "send_mail", 1).State)

	// River's rescuer runs in its leader, which replaces a dead one after 15 seconds, and
	// looks for jobs that are old enough. The worker's lease has ended by then.
	_, err = pool.Exec(t.Context(), `DELETE FROM river_leader`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE river_job SET attempted_at = attempted_at - interval '2 hours'`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE tool_effect SET due_at = now(), sent_until = now()`)
	require.NoError(t, err)
	p, events := start(t, pool, smtp.URL, rescuing())
	job := events.until(river.EventKindJobCompleted)
	require.Equal(t, 2, job.Attempt)
	require.Contains(t, job.Errors[0].Error, "rescued")
	op := p.lookup(t, "send_mail", 1)
	require.Equal(t, external.StateDone, op.State)
	require.Equal(t, "effect_1", op.Ref)
	require.Equal(t, 1, smtp.sentFor(1))
	require.Len(t, gotten, 1, "it was sent again with the same key")
}
