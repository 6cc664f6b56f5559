package contract_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgbouncer"
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

// waiting is a tracer that signals when so many calls wait in memory.
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

// A mixed storm delivers every call several times, to Dedupers that differ in
// order, isolation and exec mode, while connections break at COMMIT.
const (
	mixedKeys       = 250
	mixedDeliveries = 6
	mixedWorkers    = 24
)

var mixedRetry = dedup.RetryPolicy{MaxAttempts: 30, BaseDelay: time.Millisecond, MaxDelay: 30 * time.Millisecond}

// mixedFleet is what the deliveries are made to.
type mixedFleet struct {
	*bundle
	deduper []*dedup.Deduper
	pools   []*pgxpool.Pool
	faults  []*faultproxy.Armed

	runs    atomic.Int32
	mu      sync.Mutex
	answers map[string]map[string]bool // of each key
}

func newMixedFleet(t *testing.T) (context.Context, *mixedFleet, *faultproxy.Proxy) {
	t.Helper()
	ctx, b := setup(t, nil)
	b.exec(t, `ALTER TABLE effects ADD COLUMN run int`)
	proxy, err := faultproxy.New(b.db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	f := &mixedFleet{bundle: b, answers: map[string]map[string]bool{}}
	for _, kind := range []faultproxy.Kind{
		faultproxy.ReplyReset, faultproxy.ReplyClosed, faultproxy.ReplyCut, faultproxy.Dropped,
		faultproxy.CutBeforeSync, faultproxy.Delayed, faultproxy.ReplyDelayed,
	} {
		f.faults = append(f.faults, proxy.Arm(faultproxy.Fault{
			Kind: kind, Times: -1, Delay: 20 * time.Millisecond,
			Where: func(u faultproxy.Unit) bool { return u.Commits && rand.N(40) == 0 },
		}))
	}
	return ctx, f, proxy
}

func (f *mixedFleet) join(t *testing.T, url string, opts dedup.Options, mode pgx.QueryExecMode) {
	t.Helper()
	opts.CommitTimeout, opts.Retry = 2*time.Second, mixedRetry
	pool := f.db.Pool(t, func(config *pgxpool.Config) {
		parsed, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
		config.ConnConfig.DefaultQueryExecMode = mode
		trackCleanups(t, config)
	})
	f.pools = append(f.pools, pool)
	f.deduper = append(f.deduper, newDeduper(t, pool, &opts))
}

// storm delivers every key several times and waits for the last answer.
func (f *mixedFleet) storm(deliver func(key string)) {
	work := make(chan string)
	var workers sync.WaitGroup
	for range mixedWorkers {
		workers.Go(func() {
			for key := range work {
				deliver(key)
			}
		})
	}
	for i := range mixedKeys {
		for range mixedDeliveries {
			work <- fmt.Sprint("key-", i)
		}
	}
	close(work)
	workers.Wait()
}

// note keeps what a call answered; errors that are no answer are left out.
func (f *mixedFleet) note(key string, got ticket, err error) {
	answer := fmt.Sprint("run ", got.ID)
	var refused *dedup.RefusedError
	switch {
	case errors.As(err, &refused):
		answer = refused.Message
	case err != nil:
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answers[key] == nil {
		f.answers[key] = map[string]bool{}
	}
	f.answers[key][answer] = true
}

// requireExact waits until the server is done with every connection, and
// compares answers, records and effects.
func (f *mixedFleet) requireExact(t *testing.T) {
	t.Helper()
	f.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle')`)
	for key, answers := range f.answers {
		require.Len(t, answers, 1, "answers of %s: %v", key, answers)
	}
	hit := 0
	for _, fault := range f.faults {
		hit += fault.Count()
	}
	require.Positive(t, hit, "faults")
	require.Greater(t, len(f.answers), mixedKeys/2, "keys with an answer")
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*) FROM (SELECT FROM effects GROUP BY ref HAVING count(*) > 1) doubled`))
	require.Zero(t, scalar[int](t, f.bundle, `SELECT count(*)
		FROM tool_dedup t FULL JOIN effects e ON e.ref = t.key
		WHERE NOT coalesce(t.outcome = 'done' AND t.result::json ->> 'id' = e.run::text
			OR t.outcome = 'refused' AND e.ref IS NULL, false)`), "records without the result of their effect")
}

// TestMixedStorm has all orders, isolations, Do and DoTx, errors, refusals,
// panics, cancellations and callers who roll back.
func TestMixedStorm(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := newMixedFleet(t)
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for i, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		for j, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			f.join(t, proxy.URL(), dedup.Options{Order: order, Isolation: isolation}, modes[(3*i+j)%4])
		}
	}
	f.storm(func(key string) {
		i := rand.N(len(f.deduper))
		ctx, cancel := context.WithTimeout(ctx, limit/5)
		defer cancel()
		if rand.N(10) == 0 {
			defer time.AfterFunc(rand.N(15*time.Millisecond), cancel).Stop()
		}
		defer func() { _ = recover() }()
		if rand.N(3) > 0 {
			got, err := dedup.Do(ctx, f.deduper[i], call(key), f.effect(key))
			f.note(key, got.Value, err)
			return
		}
		tx, err := f.pools[i].Begin(ctx)
		if err != nil {
			return
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		got, err := dedup.DoTx(ctx, f.deduper[i], tx, call(key), f.effect(key))
		if rand.N(5) > 0 && tx.Commit(context.WithoutCancel(ctx)) == nil {
			f.note(key, got.Value, err)
		}
	})
	f.requireExact(t)
}

// effect leaves the number of its run and returns it, or meets some other fate.
func (f *mixedFleet) effect(key string) dedup.Effect[ticket] {
	fate := rand.N(20)
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		run := int(f.runs.Add(1))
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, key, run)
		if err != nil {
			return ticket{}, err
		}
		switch fate {
		case 0:
			return ticket{}, errPaper
		case 1:
			return ticket{}, dedup.Final(fmt.Errorf("refused in run %d", run))
		case 2:
			_, err = tx.Exec(ctx, raise("22012"))
		case 3:
			panic("out of paper")
		case 4:
			fate = 5 // better next time
			_, err = tx.Exec(ctx, raise("40001"))
		}
		return ticket{ID: run}, err
	}
}

// TestFaultsBehindThePooler breaks connections between PgBouncer, in transaction
// pooling mode, and the server.
func TestFaultsBehindThePooler(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := newMixedFleet(t)
	url, err := pgbouncer.New(t, proxy.URL()).URL(proxy.URL())
	require.NoError(t, err)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
			f.join(t, url, dedup.Options{Order: order}, mode)
		}
	}
	f.storm(func(key string) {
		ctx, cancel := context.WithTimeout(ctx, limit/5)
		defer cancel()
		got, err := dedup.Do(ctx, f.deduper[rand.N(len(f.deduper))], call(key), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			run := int(f.runs.Add(1))
			_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, key, run)
			return ticket{ID: run}, err
		})
		f.note(key, got.Value, err)
	})
	f.requireExact(t)
}
