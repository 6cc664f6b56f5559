package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/migrations"
)

// onCluster is a fixture on a Citus cluster with a table of effects beside tool_dedup, which
// the effects of booked write to.
func onCluster(t *testing.T, opts *dedup.Options) (context.Context, *fixture) {
	t.Helper()
	ctx, f := profile{engine: onCitus, isolation: pgx.ReadCommitted}.setup(t, opts)
	f.exec(t, `CREATE TABLE bookings (tenant text COLLATE "C", ref text)`)
	f.exec(t, `SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'tool_dedup')`)
	return ctx, f
}

// booked is an effect that leaves a row beside its record.
func booked(ref string, then func(ctx context.Context, tx pgx.Tx, run int) error) (*tool, dedup.Effect[ticket]) {
	e := &tool{ref: ref}
	return e, func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		run := int(e.runs.Add(1))
		_, err := tx.Exec(ctx, `INSERT INTO bookings VALUES ('acme', $1)`, ref)
		if err == nil && then != nil {
			err = then(ctx, tx, run)
		}
		return ticket{ID: run, Title: ref}, err
	}
}

func (f *fixture) bookings(t *testing.T, ref string) int {
	t.Helper()
	return scalar[int](t, f.bundle, `SELECT count(*) FROM bookings WHERE ref = $1`, ref)
}

// on returns a Deduper that is connected to a node.
func (f *fixture) on(t *testing.T, node int, change ...func(*dedup.Options)) *dedup.Deduper {
	t.Helper()
	opts := f.opts
	for _, c := range change {
		c(&opts)
	}
	return newDeduper(t, f.citus.Nodes[node].Pool(t), &opts)
}

// workersProxied has the nodes reach the workers through fault proxies.
func (f *fixture) workersProxied(t *testing.T) (proxies []*faultproxy.Proxy) {
	t.Helper()
	for _, worker := range f.citus.Nodes[1:] {
		proxy, err := faultproxy.New(worker.URL)
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		via, err := url.Parse(proxy.URL())
		require.NoError(t, err)
		own, err := url.Parse(worker.URL)
		require.NoError(t, err)
		for _, node := range f.citus.Nodes {
			conn, err := pgx.Connect(t.Context(), node.URL)
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), `UPDATE pg_dist_node SET nodename = $1, nodeport = $2::int WHERE nodeport = $3::int`,
				via.Hostname(), via.Port(), own.Port())
			require.NoError(t, err)
			require.NoError(t, conn.Close(t.Context()))
		}
		proxies = append(proxies, proxy)
	}
	return proxies
}

// passed lists the statements that were sent to the workers.
func passed(proxies []*faultproxy.Proxy) (all []string) {
	for _, p := range proxies {
		all = append(all, p.Snapshot().Statements...)
	}
	return all
}

// An effect that ends its own transaction is found out, although Citus names no column in the
// error of the worker.
func TestCitusBrokenEffect(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, nil)
	e, effect := booked("k", func(ctx context.Context, tx pgx.Tx, _ int) error {
		for _, sql := range []string{"commit", "begin"} {
			if _, err := tx.Conn().Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), effect)
		require.ErrorIs(t, err, dedup.ErrBroken)
	}
	e.requireRuns(t, 1)
	require.Equal(t, "broken", f.audit(t)[0].Action)
}

// What an effect writes to a plain table of one node is not committed together with its record.
func TestCitusCheck(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, nil)
	require.NoError(t, migrations.Check(ctx, f.pool, nil))
	f.exec(t, `CREATE TABLE notes (text text); CREATE TABLE rates (code text)`, pgx.QueryExecModeSimpleProtocol)
	var unsound *migrations.SchemaError
	require.ErrorAs(t, migrations.Check(ctx, f.pool, nil), &unsound)
	require.Len(t, unsound.Problems, 1)
	require.Equal(t, migrations.ProblemPlainTables, unsound.Problems[0].Name)
	require.Contains(t, unsound.Problems[0].What, "public.notes, public.rates")
	f.exec(t, `SELECT create_reference_table('rates')`)
	f.exec(t, `SELECT citus_add_local_table_to_metadata('notes')`)
	require.NoError(t, migrations.Check(ctx, f.pool, nil))

	f.exec(t, `SELECT undistribute_table('tool_dedup', cascade_via_foreign_keys => false)`)
	require.ErrorAs(t, migrations.Check(ctx, f.pool, nil), &unsound)
	require.Equal(t, "citus_not_distributed", unsound.Problems[0].Name)
	require.Contains(t, unsound.Problems[0].Fix, `text COLLATE "C"`)
	_, err := f.pool.Exec(ctx, migrations.CitusSQL("public", "bookings"), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err, "the advice")
	require.NoError(t, migrations.Check(ctx, f.pool, nil))
}

// A COMMIT whose answer is lost between two nodes is in doubt: the worker may commit it later. Until
// then its claim is there, so the next attempt waits and does not run the effect.
func TestCitusCommitOfAWorkerInDoubt(t *testing.T) {
	t.Parallel()

	for _, kind := range []faultproxy.Kind{faultproxy.Delayed, faultproxy.ReplyReset} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, f := onCluster(t, &dedup.Options{Retry: quickRetry, MaxWait: 100 * time.Millisecond})
			proxies := f.workersProxied(t)
			f.warm(t)
			var armed []*faultproxy.Armed
			for _, p := range proxies {
				armed = append(armed, p.Arm(faultproxy.Fault{Kind: kind, Where: faultproxy.AtCommit}))
			}
			e, effect := booked("k", nil)
			result, err := dedup.Do(ctx, f.d, call("k"), effect)
			if kind == faultproxy.Delayed { // the claim is in the way of the next attempt
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				for _, a := range armed {
					if a.Count() > 0 {
						a.Release()
						require.NoError(t, a.WaitSettled(ctx))
					}
				}
				f.eventually(t, `SELECT count(*) = 1 FROM tool_dedup WHERE key = 'k'`)
				result, err = dedup.Do(ctx, f.d, call("k"), effect)
			}
			require.NoError(t, err)
			require.Equal(t, 1, result.Value.ID)
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.bookings(t, "k"))
		})
	}
}

// MaxWait is kept where the wait is on another node.
func TestCitusWaitsAreLimited(t *testing.T) {
	t.Parallel()

	for _, maxWait := range []time.Duration{-1, 200 * time.Millisecond} {
		t.Run(maxWait.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := onCluster(t, nil)
			_, effect := booked("k", nil)
			// A record that is not committed, by a call through another node.
			tx, err := f.citus.Nodes[1].Pool(t).Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			_, err = dedup.DoTx(ctx, f.on(t, 1), tx, call("k"), effect)
			require.NoError(t, err)

			patient := f.on(t, 2, func(o *dedup.Options) { o.MaxWait = maxWait })
			_, err = dedup.Do(ctx, patient, call("k"), effect)
			require.ErrorIs(t, err, dedup.ErrInFlight)
			other, err := f.citus.Nodes[2].Pool(t).Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = other.Rollback(context.WithoutCancel(ctx)) }()
			_, err = dedup.DoTx(ctx, patient, other, call("k"), effect)
			require.ErrorIs(t, err, dedup.ErrInFlight)
			// And the caller's transaction goes on with its own limits.
			var limits string
			require.NoError(t, other.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('citus.propagate_set_commands'))`).Scan(&limits))
			require.Equal(t, "0 none", limits)

			require.NoError(t, tx.Commit(ctx))
			require.NoError(t, other.Rollback(ctx))
			replay, err := dedup.Do(ctx, patient, call("k"), effect)
			require.NoError(t, err)
			require.True(t, replay.Replayed)
			require.Equal(t, 1, f.bookings(t, "k"))
		})
	}
}

// Twins through all nodes share no lock: the primary key decides.
func TestCitusTwinsThroughAllNodes(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, nil)
	_, effect := booked("k", nil)
	var nodes []*dedup.Deduper
	for n := range f.citus.Nodes {
		nodes = append(nodes, f.on(t, n))
	}
	var pending []<-chan answered
	for i := range 30 {
		pending = append(pending, start(ctx, nodes[i%len(nodes)], call("k"), effect))
	}
	var answers []dedup.Result[ticket]
	for _, one := range pending {
		answers = append(answers, receive(t, ctx, one).require(t))
	}
	requireTwins(t, answers)
	require.Equal(t, 1, f.bookings(t, "k"))
}

// The look-up of a batch whose calls are of one scope goes to one shard.
func TestCitusBatchReadsItsShards(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, nil)
	proxies := f.workersProxied(t)
	batch := func(n int) {
		for out := range dedup.DoBatch[ticket](ctx, f.d, func(yield func(dedup.StatementCall) bool) {
			for i := range n {
				stmt := dedup.SQL(`INSERT INTO bookings VALUES ('acme', $1) RETURNING 7 AS id, ref AS title`, fmt.Sprint(i))
				if !yield(dedup.StatementCall{Call: call(fmt.Sprint(i)), Statement: stmt}) {
					return
				}
			}
		}, nil) {
			require.NoError(t, out.Err)
			require.Equal(t, ticket{ID: 7, Title: out.Call.Key}, out.Result.Value)
		}
	}
	batch(10)
	for _, p := range proxies {
		p.Reset()
	}
	batch(10)
	looks := slices.DeleteFunc(passed(proxies), func(sql string) bool { return !strings.Contains(sql, "tool_dedup_") })
	require.NotEmpty(t, looks)
	require.LessOrEqual(t, len(looks), 11, "one for each call at the most: %q", looks)
	require.Equal(t, 10, scalar[int](t, f.bundle, `SELECT count(*) FROM bookings`))
}

// dueRecords makes records of many scopes that are due, one after the other: half may be
// forgotten.
func (f *fixture) dueRecords(t *testing.T, n, scopes int) {
	t.Helper()
	f.exec(t, `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		SELECT 'tenant' || n % $2::int, 'tool', n::text, '\x00', 'done', '1', now() - interval '3 days', now() - interval '2 days' - n * interval '1 ms',
		       now() + CASE WHEN n % 2 = 0 THEN interval '1 day' ELSE interval '-1 day' END - n * interval '1 ms'
		  FROM generate_series(1, $1::int) n`, n, scopes)
}

// A sweep handles one shard per transaction, so that none spans two nodes, and locks the records
// that it archives.
func TestCitusSweep(t *testing.T) {
	t.Parallel()

	const records = 2000
	for _, archived := range []bool{false, true} {
		t.Run(fmt.Sprint("archived=", archived), func(t *testing.T) {
			t.Parallel()
			ctx, f := onCluster(t, nil)
			proxies := f.workersProxied(t)
			f.dueRecords(t, records, 400)
			for _, p := range proxies {
				p.Reset()
			}
			seen := map[string]int{}
			opts := &dedup.SweepOptions{Rest: -1, BatchSize: 50}
			if archived {
				opts.Archive = func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
					for _, r := range batch {
						seen[r.Key]++
					}
					return nil
				}
			}
			swept, err := f.on(t, 0).Sweep(ctx, opts)
			require.NoError(t, err)
			require.EqualValues(t, records/2, swept.Forgotten)
			require.EqualValues(t, records/2, swept.Expired)
			require.Greater(t, swept.Batches, 5)
			if archived {
				require.Len(t, seen, records)
			}
			for _, sql := range passed(proxies) {
				require.NotContains(t, sql, "PREPARE TRANSACTION")
			}
			require.Equal(t, records/2, f.records(t))
		})
	}
}

// Sweepers on several nodes do not see each other's lock; they share the work.
func TestCitusSweepersOnTwoNodes(t *testing.T) {
	t.Parallel()

	const records = 3000
	ctx, f := onCluster(t, nil)
	f.dueRecords(t, records, 400)
	results := make(chan dedup.SweepResult, 2)
	errs := make(chan error, 2)
	for node := range 2 {
		d := f.on(t, node)
		go func() {
			swept, err := d.Sweep(ctx, &dedup.SweepOptions{Rest: -1, BatchSize: 20})
			results <- swept
			errs <- err
		}()
	}
	require.NoError(t, errors.Join(receive(t, ctx, errs), receive(t, ctx, errs)))
	a, b := receive(t, ctx, results), receive(t, ctx, results)
	last, err := f.d.Sweep(ctx, &dedup.SweepOptions{Rest: -1}) // rows that both had locked
	require.NoError(t, err)
	require.EqualValues(t, records/2, a.Forgotten+b.Forgotten+last.Forgotten)
	require.EqualValues(t, records/2, a.Expired+b.Expired+last.Expired)
	require.Equal(t, records/2, f.records(t))
}

// A plain table becomes a distributed one beside running calls.
func TestCitusDistributedBesideCalls(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, &dedup.Options{Retry: quickRetry})
	f.exec(t, `SELECT undistribute_table('bookings', cascade_via_foreign_keys => false)`)
	f.exec(t, `SELECT undistribute_table('tool_dedup', cascade_via_foreign_keys => false)`)
	stop := make(chan struct{})
	ended := make(chan error, 2)
	made := make([]int, 2)
	for worker := range 2 {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				key := fmt.Sprint(worker, "-", n)
				_, effect := booked(key, nil)
				for range 2 {
					if _, err := dedup.Do(ctx, f.d, call(key), effect); err != nil {
						ended <- fmt.Errorf("call %s: %w", key, err)
						return
					}
				}
				made[worker]++
			}
		}()
	}
	more := func() { // so many calls more
		before := scalar[int](t, f.bundle, `SELECT count(*) FROM tool_dedup`)
		f.eventually(t, `SELECT count(*) >= $1 FROM tool_dedup`, before+20)
	}
	more()
	f.exec(t, `SET citus.multi_shard_modify_mode TO 'sequential'`)
	f.exec(t, `SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'none')`)
	_, err := f.pool.Exec(ctx, migrations.CitusSQL("public", "bookings"), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	more()
	close(stop)
	require.NoError(t, errors.Join(receive(t, ctx, ended), receive(t, ctx, ended)))
	require.Equal(t, made[0]+made[1], f.records(t))
	require.Equal(t, made[0]+made[1], scalar[int](t, f.bundle, `SELECT count(*) FROM bookings`))
	require.Equal(t, made[0]+made[1], scalar[int](t, f.bundle, `SELECT count(DISTINCT ref) FROM bookings`))
	require.NoError(t, migrations.Check(ctx, f.pool, nil))
}

// In a distributed schema all tables of a tenant lie on one node.
func TestCitusDistributedSchema(t *testing.T) {
	t.Parallel()

	_, f := onCluster(t, nil)
	ctx := t.Context()
	sql, err := migrations.SQL()
	require.NoError(t, err)
	f.exec(t, `CREATE SCHEMA tenant; SET search_path = tenant; `+sql+`CREATE TABLE tenant.bookings (ref text)`, pgx.QueryExecModeSimpleProtocol)
	f.pool.Reset()
	f.exec(t, `SELECT citus_schema_distribute('tenant')`)
	require.NoError(t, migrations.Check(ctx, f.pool, &migrations.CheckOptions{Schema: "tenant"}))
	effect := func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		_, err := tx.Exec(ctx, `INSERT INTO tenant.bookings VALUES ('k')`)
		return ticket{ID: 7}, err
	}
	for node := range f.citus.Nodes {
		d := f.on(t, node, func(o *dedup.Options) { o.Schema = "tenant" })
		result, err := dedup.Do(ctx, d, call("k"), effect)
		require.NoError(t, err)
		require.Equal(t, node > 0, result.Replayed)
		one, err := dedup.DoStatement[ticket](ctx, d, call("s"), dedup.SQL(`INSERT INTO tenant.bookings VALUES ('s') RETURNING 1 AS id, ref AS title`))
		require.NoError(t, err)
		require.Equal(t, node > 0, one.Replayed)
	}
	require.Equal(t, 2, scalar[int](t, f.bundle, `SELECT count(*) FROM tenant.bookings`))

	f.exec(t, `UPDATE tenant.tool_dedup SET expires_at = '2020-01-01', forget_at = '2020-01-02'`)
	var kept []string
	swept, err := f.on(t, 1, func(o *dedup.Options) { o.Schema = "tenant" }).Sweep(ctx, &dedup.SweepOptions{
		Archive: func(_ context.Context, _ pgx.Tx, batch []dedup.SweptRecord) error {
			for _, r := range batch {
				kept = append(kept, r.Key)
			}
			return nil
		},
	})
	require.NoError(t, err)
	require.EqualValues(t, 2, swept.Forgotten)
	require.ElementsMatch(t, []string{"k", "s"}, kept)
}
