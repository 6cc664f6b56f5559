package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// Session is a process of the server that is at a call, or waits for one.
type Session struct {
	PID int32 `json:"pid"`
	// Waits is true where it waits for the lock, as DoTx does; Do waits without one.
	Waits bool `json:"waits,omitempty"`
	// Since is when its transaction began, zero where this role may not see that.
	Since       time.Time `json:"since,omitzero"`
	State       string    `json:"state,omitempty"`
	Application string    `json:"application,omitempty"`
	Client      string    `json:"client,omitempty"`
	// Statement is the effect's last one, cut off. It is empty where there is none yet, or this
	// role may not see it. It may have values in it.
	Statement string `json:"statement,omitempty"`

	Now    time.Time `json:"-"` // when it was read
	locks  []int64   // the advisory locks of one in flight
	sweeps bool      // it is a Sweeper's
}

// statementLength is how much of a statement is read.
const statementLength = 300

// sessionColumns are those of a session, in the order of its fields, of a transaction's locks
// in pg_locks l, and of pg_stat_activity a.
var sessionColumns = fmt.Sprintf(`l.pid, NOT bool_or(l.granted), a.xact_start, COALESCE(max(a.state), ''), COALESCE(max(a.application_name), ''), COALESCE(max(host(a.client_addr)), ''),
       COALESCE(left(max(a.query), %d), ''), (array_agg(%s) FILTER (WHERE l.locktype = 'advisory'))[1:%d], clock_timestamp()`, statementLength, lockKey, table.MaxLocks)

// lockKey is the key of an advisory lock.
const lockKey = `((l.classid::bigint << 32) | l.objid::bigint)`

// locksSQL joins what the server knows of this database's locks with their sessions.
const locksSQL = `pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`

// isLock is the condition of a call's lock. Those of look-ups are shared, and last for a moment.
const isLock = `l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.objsubid = 1`

// sessionsOf reads which sessions hold a call's lock, or wait for it.
func sessionsOf(r *reader, scope, tool, key string) ([]Session, error) {
	lock := table.Identity{Scope: scope, Tool: tool, Key: key}.LockKey(r.schema)
	return sessions(r, `SELECT `+sessionColumns+` FROM `+locksSQL+` AND `+isLock+` AND `+lockKey+` = $1::bigint
 GROUP BY l.pid, a.xact_start
 ORDER BY bool_or(l.granted) DESC, a.xact_start, l.pid LIMIT 1000`, lock)
}

// inFlightSQL finds the transactions that hold advisory locks, or have written to the table $1, the
// oldest first. Where this role may not see when one began it has no state either. A session's own
// locks outside of a transaction are no call's.
func inFlightSQL(limit int) string {
	return fmt.Sprintf(`SELECT %s FROM %s AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
   AND (%s OR l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.relation = pg_catalog.to_regclass($1::text))
   AND (a.xact_start IS NOT NULL OR a.state IS NULL)
 GROUP BY l.pid, a.xact_start
 ORDER BY a.xact_start, l.pid LIMIT %d`, sessionColumns, locksSQL, isLock, limit)
}

func sessions(r *reader, sql string, args ...any) ([]Session, error) {
	sweep := table.SweepLock(r.schema)
	return collect(r, func(row pgx.CollectableRow) (s Session, err error) {
		var since *time.Time
		err = row.Scan(&s.PID, &s.Waits, &since, &s.State, &s.Application, &s.Client, &s.Statement, &s.locks, &s.Now)
		if since != nil {
			s.Since = since.UTC()
		}
		if strings.Contains(s.Statement, "tool_dedup") || strings.HasPrefix(s.Statement, "<") { // the library's, or one that is not shown
			s.Statement = ""
		}
		s.sweeps = slices.Contains(s.locks, sweep)
		return s, err
	}, sql, args...)
}
