package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// Session is a process of the server that holds a call's lock, or waits for it.
type Session struct {
	PID int32 `json:"pid"`
	// Waits is true where it waits for the lock, as DoTx does; Do waits without one.
	Waits bool `json:"waits,omitempty"`
	// Since is when its transaction began, zero where this role may not see that.
	Since       time.Time `json:"since,omitzero"`
	State       string    `json:"state,omitempty"`
	Application string    `json:"application,omitempty"`
	Client      string    `json:"client,omitempty"`

	// Locks is how many advisory locks one of [Held] has.
	Locks int64     `json:"-"`
	Now   time.Time `json:"-"`
}

// sessionColumns are those of a session, in the order of its fields, of pg_locks l and
// pg_stat_activity a.
const sessionColumns = `l.pid, NOT l.granted, a.xact_start, COALESCE(a.state, ''), COALESCE(a.application_name, ''), COALESCE(host(a.client_addr), ''), clock_timestamp()`

// advisorySQL joins what the server knows of advisory locks of this database with their
// sessions. Those of look-ups are shared, and last for a moment.
const advisorySQL = `pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`

// Sessions reads which sessions hold a call's lock, or wait for it.
func Sessions(ctx context.Context, tx pgx.Tx, schema, scope, tool, key string) ([]Session, error) {
	lock := table.Identity{Scope: scope, Tool: tool, Key: key}.LockKey(schema)
	rows, err := tx.Query(ctx, `SELECT `+sessionColumns+` FROM `+advisorySQL+`
   AND l.classid::bigint = ($1::bigint >> 32) & 4294967295 AND l.objid::bigint = $1::bigint & 4294967295
 ORDER BY l.granted DESC, a.xact_start, l.pid LIMIT 1000`, lock)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Session, err error) {
		var since *time.Time
		err = row.Scan(&s.PID, &s.Waits, &since, &s.State, &s.Application, &s.Client, &s.Now)
		if since != nil {
			s.Since = since.UTC()
		}
		return s, err
	})
}

// heldSQL finds the sessions that hold advisory locks for long.
func heldSQL(limit int) string {
	return fmt.Sprintf(`SELECT l.pid, a.xact_start, count(*), COALESCE(max(a.state), ''), COALESCE(max(a.application_name), ''), COALESCE(max(host(a.client_addr)), ''), clock_timestamp()
  FROM %s AND l.granted AND a.xact_start < clock_timestamp() - $1::interval
 GROUP BY l.pid, a.xact_start
 ORDER BY a.xact_start LIMIT %d`, advisorySQL, limit)
}

// Held reads which sessions hold an advisory lock, as calls do, in a transaction that is older
// than a duration. The oldest come first.
func Held(ctx context.Context, tx pgx.Tx, olderThan time.Duration, limit int) ([]Session, error) {
	rows, err := tx.Query(ctx, heldSQL(limit), olderThan)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Session, err error) {
		err = row.Scan(&s.PID, &s.Since, &s.Locks, &s.State, &s.Application, &s.Client, &s.Now)
		s.Since = s.Since.UTC()
		return s, err
	})
}
