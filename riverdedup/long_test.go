package riverdedup_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"
)

// TestLongOutbox takes 600 orders, each with a mail and a job in one transaction. A tenth of them
// is rolled back, another tenth sent twice. Workers kill themselves in the middle of operations,
// replies are lost, and River runs interrupted jobs again.
func TestLongOutbox(t *testing.T) {
	t.Parallel()
	const orders, maxKills = 600, 12
	pool := newDatabase(t)
	smtp := newProvider(t)
	var requests atomic.Int64
	smtp.after = func(int) int {
		if requests.Add(1)%30 == 0 {
			return lost
		}
		return 0
	}
	// This process takes the orders. Its client works no jobs and never dies: it is River's
	// leader, which rescues jobs.
	config := rescuing()
	config.JobTimeout, config.RescueStuckJobsAfter = 2*time.Second, 3*time.Second // while the test goes on
	config.Queues = map[string]river.QueueConfig{"idle": {MaxWorkers: 1}}
	p, _ := start(t, pool, smtp.URL, config)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	kills := make(chan int, 1)
	go func() {
		kills <- respawn(ctx, t, child{Database: pool.Config().ConnString(), Provider: smtp.URL, Dies: 0.005}, maxKills)
	}()
	for n := range orders {
		var fails error
		if n%10 == 7 {
			fails = errRolledBack
		}
		_, err := p.order(t.Context(), n, fails)
		require.ErrorIs(t, err, fails)
		if n%10 == 3 {
			_, err := p.order(t.Context(), n, nil)
			require.NoError(t, err)
		}
	}
	for count(t, pool, `SELECT count(*) FROM river_job WHERE finalized_at IS NULL`) > 0 {
		_, err := pool.Exec(t.Context(), `SELECT pg_sleep(0.5)`)
		require.NoError(t, err)
	}
	stop()
	killed := <-kills

	const kept = orders * 9 / 10
	require.Equal(t, kept, count(t, pool, `SELECT count(*) FROM orders`))
	require.Equal(t, kept, count(t, pool, `SELECT count(*) FROM tool_dedup WHERE outcome = 'done'`))
	require.Equal(t, kept, count(t, pool, `SELECT count(*) FROM tool_effect WHERE state = 'done' AND twice IS NULL`))
	require.Equal(t, kept, count(t, pool, `SELECT count(*) FROM river_job WHERE state = 'completed'`))
	require.Equal(t, kept, count(t, pool, `SELECT count(*) FROM river_job`))
	for n := range orders {
		want := 1
		if n%10 == 7 {
			want = 0
		}
		require.Equal(t, want, smtp.sentFor(n), "order %d", n)
	}
	again := count(t, pool, `SELECT sum(attempt) - count(*) FROM river_job`)
	require.Greater(t, killed, 5)
	require.Greater(t, again, 20)
	t.Logf("%d orders, %d mails, each once; %d workers killed, %d later attempts of jobs, %d requests", kept, kept, killed, again, requests.Load())
}

// respawn keeps a worker process alive until ctx ends, and returns how many have died. After most
// deaths it starts one that does not die.
func respawn(ctx context.Context, t *testing.T, c child, most int) (died int) {
	t.Helper()
	for ctx.Err() == nil {
		if died == most {
			c.Dies = 0
		}
		worker, err := spawn(ctx, t, c)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("starting a worker: %v", err)
			}
			return died
		}
		_ = worker.Wait()
		if ctx.Err() == nil {
			died++
		}
	}
	return died
}
