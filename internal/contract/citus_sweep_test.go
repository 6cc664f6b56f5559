package contract_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestLongCitusSweep sweeps 1,000,000 records on 32 shards while 200 calls a second run. It logs
// the duration of the calls and checks the rows that remain.
func TestLongCitusSweep(t *testing.T) {
	t.Parallel()

	const records = 1_000_000
	ctx, f := onCluster(t, nil)
	n := 0
	// calls makes 200 calls a second until done, at most 32 at once.
	calls := func(done <-chan struct{}) (took []time.Duration) {
		var mu sync.Mutex
		var all sync.WaitGroup
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		room := make(chan struct{}, 32)
		for {
			select {
			case <-done:
				all.Wait()
				slices.Sort(took)
				return took
			case <-tick.C:
				n++
				key := fmt.Sprint(n)
				room <- struct{}{}
				all.Go(func() {
					defer func() { <-room }()
					_, effect := booked(key, nil)
					began := time.Now()
					if _, err := dedup.Do(ctx, f.d, call(key), effect); err != nil {
						t.Error(err)
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				})
			}
		}
	}
	log := func(when string, took []time.Duration) {
		t.Logf("%s: %d calls, median %s, p99 %s", when, len(took), took[len(took)/2], took[len(took)*99/100])
	}
	f.dueRecords(t, records, 400)
	calm := make(chan struct{})
	time.AfterFunc(15*time.Second, func() { close(calm) })
	log("calm", calls(calm))

	swept := make(chan struct{})
	var result dedup.SweepResult
	var err error
	began := time.Now()
	sweeper := f.on(t, 0)
	go func() {
		defer close(swept)
		result, err = sweeper.Sweep(ctx, &dedup.SweepOptions{Rest: 1})
	}()
	log("beside the sweep", calls(swept))
	require.NoError(t, err)
	t.Logf("swept %d in %s, in %d transactions", result.Forgotten+result.Expired, time.Since(began), result.Batches)
	require.EqualValues(t, records/2, result.Forgotten)
	require.EqualValues(t, records/2, result.Expired)
	require.Equal(t, records/2+n, f.records(t))
	for _, node := range f.citus.Nodes {
		require.Zero(t, preparedOn(t, ctx, node.URL))
	}
}

// preparedOn counts the two-phase commits that are half done in a database.
func preparedOn(t *testing.T, ctx context.Context, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`).Scan(&n))
	return n
}
