package run

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// stored is the size of all tables and indexes except the effects' and the system's, vacuumed. Only
// main forks count: the maps of free space and visibility take a few pages in any table. No record
// of the benchmark is long enough for TOAST.
func stored(ctx context.Context, pool *pgxpool.Pool) (bytes int64, err error) {
	if _, err := pool.Exec(ctx, `VACUUM`); err != nil {
		return 0, fmt.Errorf("vacuuming: %w", err)
	}
	err = pool.QueryRow(ctx, `
		SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'i')
		AND c.relname <> 'effects'
		AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("asking for the sizes of tables: %w", err)
	}
	return bytes, nil
}

// A walState is the state of the server's WAL.
type walState struct{ bytes, images, flushes int64 }

// readWAL reads the state, including reports of idle backends.
func readWAL(ctx context.Context, admin *pgxpool.Pool, pools []*pgxpool.Pool) (state walState, err error) {
	for _, pool := range pools {
		if err := flushStatistics(ctx, pool); err != nil {
			return state, fmt.Errorf("flushing statistics, which takes PostgreSQL 15: %w", err)
		}
	}
	var version int
	if err := admin.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return state, fmt.Errorf("asking for the server's version: %w", err)
	}
	flushes := `(SELECT wal_sync FROM pg_stat_wal)`
	if version >= 18_00_00 {
		flushes = `(SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal')`
	}
	err = admin.QueryRow(ctx, `
		SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, (SELECT wal_fpi FROM pg_stat_wal), `+flushes,
	).Scan(&state.bytes, &state.images, &state.flushes)
	if err != nil {
		return state, fmt.Errorf("reading the WAL's statistics, which takes PostgreSQL 15: %w", err)
	}
	return state, nil
}

// flushStatistics makes every idle connection of the pool report its statistics. Otherwise it would
// do so once a second.
func flushStatistics(ctx context.Context, pool *pgxpool.Pool) error {
	for _, conn := range pool.AcquireAllIdle(ctx) {
		defer conn.Release()
		if _, err := conn.Exec(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
			return err
		}
	}
	return nil
}
