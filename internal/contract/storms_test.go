package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// A mixed storm delivers every call several times, to Dedupers that differ in
// order, isolation and exec mode, while connections break at COMMIT.
const (
	mixedKeys       = 100
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

// TestLongFaultsBehindThePooler breaks connections between PgBouncer, in transaction
// pooling mode, and the server.
func TestLongFaultsBehindThePooler(t *testing.T) {
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
