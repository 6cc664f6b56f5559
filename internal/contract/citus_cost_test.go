package contract_test

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// citusWays are the ways whose cost on a cluster is counted, beside the bare transaction. Each gets
// a new number for every call; a replay ignores it.
var citusWays = []struct {
	name string
	// trips is the number of round trips between coordinator and worker if effect and record are
	// co-located.
	trips int
	call  func(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, n int64) error
}{
	// BEGIN, INSERT, COMMIT.
	{"Bare", 3, func(ctx context.Context, pool *pgxpool.Pool, _ *dedup.Deduper, n int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var title string
			return tx.QueryRow(ctx, bookSQL, fmt.Sprint(n)).Scan(nil, &title)
		})
	}},
	// BEGIN, the claim, the end of its lock_timeout, the effect, the record, COMMIT.
	{"Do", 6, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, n int64) error {
		_, err := dedup.Do(ctx, d, call(fmt.Sprint("do", n)), func(ctx context.Context, tx pgx.Tx) (t ticket, err error) {
			err = tx.QueryRow(ctx, bookSQL, fmt.Sprint(n)).Scan(&t.ID, &t.Title)
			return t, err
		})
		return err
	}},
	{"DoStatement", 6, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, n int64) error {
		_, err := dedup.DoStatement[ticket](ctx, d, call(fmt.Sprint("statement", n)), dedup.SQL(bookSQL, fmt.Sprint(n)))
		return err
	}},
	// BEGIN, the claim, the end of its lock_timeout, the look-up, ROLLBACK.
	{"Replay", 5, func(ctx context.Context, _ *pgxpool.Pool, d *dedup.Deduper, _ int64) error {
		_, err := dedup.Do(ctx, d, call("replay"), effect("replay"))
		return err
	}},
}

const bookSQL = `INSERT INTO bookings (tenant, ref) VALUES ('acme', $1) RETURNING 7 AS id, ref AS title`

// TestCitusTripsBetweenNodes counts the trips of a call between the nodes: a record costs as much
// as any other row.
func TestCitusTripsBetweenNodes(t *testing.T) {
	t.Parallel()

	ctx, f := onCluster(t, nil)
	proxies := f.workersProxied(t)
	for _, way := range citusWays {
		for n := range int64(3) { // the first connects
			before := 0
			for _, p := range proxies {
				before += len(toShards(p.Snapshot().Statements))
			}
			require.NoError(t, way.call(ctx, f.pool, f.d, n))
			after := 0
			for _, p := range proxies {
				after += len(toShards(p.Snapshot().Statements))
			}
			if n == 2 {
				require.Equal(t, way.trips, after-before, way.name)
			}
		}
	}
}

var citusOwn = regexp.MustCompile(`dump_local_wait_edges|pg_prepared_xacts|assign_distributed_transaction_id|application_name|^set local lock_timeout = `)

// toShards leaves out what Citus's own processes send. BEGIN, what names the transaction and the
// settings from before its first statement are one trip.
func toShards(statements []string) (own []string) {
	for _, sql := range statements {
		if !citusOwn.MatchString(sql) {
			own = append(own, sql)
		}
	}
	return own
}

// BenchmarkCitus measures calls by eight clients through the coordinator. It needs the cluster in
// DEDUP_CITUS_URLS:
//
//	go test -run '^$' -bench Citus -count 5 ./internal/contract
func BenchmarkCitus(b *testing.B) {
	cluster := pgtest.NewCitus(b)
	ctx := b.Context()
	pool := cluster.Coordinator().Pool(b, func(config *pgxpool.Config) { config.MaxConns = 8 })
	for _, sql := range []string{
		`CREATE TABLE effects (ref text)`, `SELECT create_reference_table('effects')`,
		`CREATE TABLE bookings (tenant text COLLATE "C", ref text)`, `SELECT create_distributed_table('bookings', 'tenant', colocate_with => 'tool_dedup')`,
	} {
		_, err := pool.Exec(ctx, sql)
		require.NoError(b, err)
	}
	d, err := dedup.New(pool, nil)
	require.NoError(b, err)
	var n atomic.Int64
	for _, way := range citusWays {
		b.Run(way.name, func(b *testing.B) {
			require.NoError(b, way.call(ctx, pool, d, n.Add(1)))
			b.SetParallelism(4) // eight on two cores
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := way.call(ctx, pool, d, n.Add(1)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
