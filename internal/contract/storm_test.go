package contract_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// A storm is many twins of one call in two processes with four connections
// each. The effect is held inside the database until all of them wait.
const (
	stormTwins = 500 // in each of the two processes
	stormConns = 4
	stormGate  = 4711 // an advisory lock that the effect needs
	stormEnv   = "DEDUP_TEST_STORM"
)

// stormReport is what one process says of its twins.
type stormReport struct {
	Answers  int      `json:"answers"`
	Values   []int64  `json:"values"` // distinct
	Executed int      `json:"executed"`
	Errors   []string `json:"errors"`
}

// waiting is a tracer that tells when so many calls wait in memory.
type waiting struct {
	mu   sync.Mutex
	left int
	all  chan struct{}
}

func newWaiting(n int) *waiting { return &waiting{left: n, all: make(chan struct{})} }

func (w *waiting) TraceWaitStart(_ context.Context, data dedup.WaitStartData) {
	if !data.InProcess {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left == 0 {
		close(w.all)
	}
}

func (w *waiting) TraceWaited(context.Context, dedup.WaitedData) {}

// stormCalls makes this process's share of the twins and returns when all of
// them have their answer. It closes ready when all but the one that leads wait.
func stormCalls(ctx context.Context, pool *pgxpool.Pool, ready chan<- struct{}) stormReport {
	waiting := newWaiting(stormTwins - 1)
	d, err := dedup.New(pool, &dedup.Options{Tracer: waiting})
	if err != nil {
		return stormReport{Errors: []string{err.Error()}}
	}
	go func() {
		select {
		case <-waiting.all:
		case <-ctx.Done():
		}
		close(ready)
	}()

	var mu sync.Mutex
	var report stormReport
	var twins sync.WaitGroup
	for range stormTwins {
		twins.Go(func() {
			got, err := dedup.Do(ctx, d, call("storm"), func(ctx context.Context, tx pgx.Tx) (id int64, err error) {
				if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, stormGate); err != nil {
					return 0, err
				}
				err = tx.QueryRow(ctx, `INSERT INTO storm DEFAULT VALUES RETURNING id`).Scan(&id)
				return id, err
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				report.Errors = append(report.Errors, err.Error())
			default:
				report.Answers++
				if !got.Replayed {
					report.Executed++
				}
				if !slices.Contains(report.Values, got.Value) {
					report.Values = append(report.Values, got.Value)
				}
			}
		})
	}
	twins.Wait()
	return report
}

// stormProcess is the second process: this test binary, started again.
func stormProcess(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := stormPool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	ready := make(chan struct{})
	go func() { <-ready; fmt.Fprintln(os.Stdout, "ready") }()
	return json.NewEncoder(os.Stdout).Encode(stormCalls(ctx, pool, ready))
}

func stormPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = stormConns
	return pgxpool.NewWithConfig(ctx, config)
}

// storm raises a storm, calls during while every twin waits, lets the effect go
// on and returns what both processes report.
func storm(tb testing.TB, db *pgtest.DB, pool *pgxpool.Pool, during func()) []stormReport {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()

	gate, err := pgx.Connect(ctx, db.URL)
	require.NoError(tb, err)
	defer gate.Close(context.WithoutCancel(ctx))
	_, err = gate.Exec(ctx, `CREATE TABLE storm (id bigint GENERATED ALWAYS AS IDENTITY)`)
	require.NoError(tb, err)
	_, err = gate.Exec(ctx, `SELECT pg_advisory_lock($1)`, stormGate)
	require.NoError(tb, err)

	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), stormEnv+"="+db.URL)
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, child.Start())
	out := bufio.NewReader(pipe)

	ready, reports := make(chan struct{}), make(chan stormReport, 1)
	go func() { reports <- stormCalls(ctx, pool, ready) }()
	line, err := out.ReadString('\n')
	require.NoError(tb, err)
	require.Equal(tb, "ready\n", line)
	<-ready

	during()

	_, err = gate.Exec(ctx, `SELECT pg_advisory_unlock($1)`, stormGate)
	require.NoError(tb, err)
	var theirs stormReport
	require.NoError(tb, json.NewDecoder(out).Decode(&theirs))
	require.NoError(tb, child.Wait())
	return []stormReport{<-reports, theirs}
}

// TestStorm: a thousand twins in two processes on four connections each have
// one effect and a thousand equal answers, and calls of other identities get
// through while all of them wait.
func TestStorm(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t, nil)
	pool, err := stormPool(ctx, b.db.URL)
	require.NoError(t, err)
	defer pool.Close()
	others := newDeduper(t, pool, nil)

	reports := storm(t, b.db, pool, func() {
		for i := range 20 {
			_, err := dedup.Do(ctx, others, call(fmt.Sprint("other ", i)), effect("other"))
			require.NoError(t, err)
		}
	})

	answers, executed, values := 0, 0, map[int64]bool{}
	for _, r := range reports {
		require.Empty(t, r.Errors)
		answers += r.Answers
		executed += r.Executed
		for _, v := range r.Values {
			values[v] = true
		}
	}
	require.Equal(t, 2*stormTwins, answers)
	require.Equal(t, 1, executed)
	require.Len(t, values, 1)
	require.Equal(t, 1, scalar[int](t, b, `SELECT count(*) FROM storm`))
	require.Equal(t, 20, b.effects(t, "other"))
}

// BenchmarkStorm measures calls of other identities without a storm and during
// one, and reports how many times longer they take.
func BenchmarkStorm(b *testing.B) {
	ctx := b.Context()
	db := pgtest.New(b)
	pool, err := stormPool(ctx, db.URL)
	require.NoError(b, err)
	defer pool.Close()
	_, err = pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL)`)
	require.NoError(b, err)
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)

	const calls = 2_000
	n := 0
	measure := func() (p50, p99 time.Duration) {
		took := make([]time.Duration, calls)
		for i := range took {
			n++
			start := time.Now()
			_, err := dedup.Do(ctx, d, call(fmt.Sprint("other ", n)), effect("other"))
			took[i] = time.Since(start)
			require.NoError(b, err)
		}
		slices.Sort(took)
		return took[calls/2], took[calls*99/100]
	}

	measure() // warm up
	for range b.N {
		calm50, calm99 := measure()
		var storm50, storm99 time.Duration
		storm(b, db, pool, func() { storm50, storm99 = measure() })
		b.ReportMetric(float64(calm50.Microseconds()), "calm-p50-µs")
		b.ReportMetric(float64(storm50.Microseconds()), "storm-p50-µs")
		b.ReportMetric(float64(storm50)/float64(calm50), "p50-ratio")
		b.ReportMetric(float64(storm99)/float64(calm99), "p99-ratio")
	}
}
