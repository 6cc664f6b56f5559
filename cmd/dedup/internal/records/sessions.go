package records

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/table"
)

// session is a process of the server that holds a call's lock, or waits for it.
type session struct {
	PID int32 `json:"pid"`
	// Waits is true where it waits for the lock, as DoTx does; Do waits without one.
	Waits bool `json:"waits,omitempty"`
	// Since is when its transaction began, zero where this role may not see that.
	Since       time.Time `json:"since,omitzero"`
	State       string    `json:"state,omitempty"`
	Application string    `json:"application,omitempty"`
	Client      string    `json:"client,omitempty"`

	now time.Time
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

// sessionsOf are those that hold a call's lock, or wait for it.
func sessionsOf(ctx context.Context, tx pgx.Tx, db *cli.Database, s *search) ([]session, error) {
	lock := table.Identity{Scope: s.scope, Tool: s.tool, Key: s.key}.LockKey(db.Schema)
	rows, err := tx.Query(ctx, `SELECT `+sessionColumns+` FROM `+advisorySQL+`
   AND l.classid::bigint = ($1::bigint >> 32) & 4294967295 AND l.objid::bigint = $1::bigint & 4294967295
 ORDER BY l.granted DESC, a.xact_start, l.pid LIMIT 1000`, lock)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanSession)
}

func scanSession(row pgx.CollectableRow) (s session, err error) {
	var since *time.Time
	err = row.Scan(&s.PID, &s.Waits, &since, &s.State, &s.Application, &s.Client, &s.now)
	if since != nil {
		s.Since = since.UTC()
	}
	return s, err
}

func (s *session) role() string {
	if s.Waits {
		return "waits"
	}
	return "in flight"
}

func (s *session) text() string {
	text := fmt.Sprintf("pid %d", s.PID)
	if !s.Since.IsZero() {
		text += ", transaction since " + moment(s.Since, s.now)
	}
	for _, more := range []string{s.State, s.Application, s.Client} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}
