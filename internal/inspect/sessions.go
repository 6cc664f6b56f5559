package inspect

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// Session is a process of the server that runs a call or waits for one.
type Session struct {
	PID int32 `json:"pid"`
	// Waits is true if it waits for the call's lock, as DoTx does. Do waits without a session.
	Waits bool `json:"waits,omitempty"`
	// Since is when its transaction began, zero if this role may not see that.
	Since       time.Time `json:"since,omitzero"`
	State       string    `json:"state,omitempty"`
	Application string    `json:"application,omitempty"`
	Client      string    `json:"client,omitempty"`
	// Statement is the effect's last statement, shortened. It is empty if there is none or this
	// role may not see it. It may contain values.
	Statement string `json:"statement,omitempty"`

	Locks []int64   `json:"-"` // its advisory locks
	Now   time.Time `json:"-"` // when it was read
}

// statementLength is the most characters of a statement that are read.
const statementLength = 300

const (
	// lockKey is the key of an advisory lock.
	lockKey = `((l.classid::bigint << 32) | l.objid::bigint)`
	// isLock matches a call's lock. The locks of look-ups are shared and short.
	isLock = `l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.objsubid = 1`
)

// sessions selects the transactions with locks that meet a condition, the oldest first. The
// library's own statements are not shown.
func sessions(condition string, limit int, args pgx.NamedArgs) query {
	return query{fmt.Sprintf(`SELECT l.pid, NOT bool_or(l.granted), COALESCE(a.xact_start, '0001-01-01 00:00:00+00') AT TIME ZONE 'UTC',
       COALESCE(max(a.state), ''), COALESCE(max(a.application_name), ''), COALESCE(max(host(a.client_addr)), ''),
       CASE WHEN left(max(a.query), %[1]d) ~ 'tool_dedup|^<' THEN '' ELSE COALESCE(left(max(a.query), %[1]d), '') END,
       (array_agg(%[2]s) FILTER (WHERE l.locktype = 'advisory'))[1:%[3]d], clock_timestamp()
  FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
   AND %[4]s
 GROUP BY l.pid, a.xact_start
 ORDER BY bool_or(l.granted) DESC, a.xact_start, l.pid LIMIT %[5]d`, statementLength, lockKey, table.MaxLocks, condition, limit), args}
}

// sessionsOf selects the sessions that hold a call's lock or wait for it.
func sessionsOf(lock int64) query {
	return sessions(isLock+` AND `+lockKey+` = @lock::bigint`, 1000, pgx.NamedArgs{"lock": lock})
}

// sessionsInFlight selects the transactions that hold advisory locks or have written to tool_dedup.
// If this role may not see a session's transaction, it may not see its state either. A session's
// own locks outside a transaction are not a call's.
func sessionsInFlight(schema string, limit int) query {
	return sessions(`l.granted AND l.pid <> pg_catalog.pg_backend_pid()
   AND (`+isLock+` OR l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.relation = pg_catalog.to_regclass(@table::text))
   AND (a.xact_start IS NOT NULL OR a.state IS NULL)`, limit, pgx.NamedArgs{"table": pgx.Identifier{schema, "tool_dedup"}.Sanitize()})
}
