package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/inspect"
)

// poolerLooks is how often the pooler is watched giving out server connections.
// One that is idle shows its mode at once, a busy one may take a few looks.
const poolerLooks = 8

// pooler reports whether a pooler is in front of the server, and whether the URL's exec mode works
// through it. It judges by the pooler's behavior: an application cannot query a pooler's console.
func pooler() check {
	const (
		evidence = "a transaction pooler that {tracks} prepared statements; exec mode {mode}"
		fix      = "add default_query_exec_mode=exec (or cache_describe) to the URL; or use PgBouncer 1.21 or later with max_prepared_statements, and the default exec mode"
	)
	return check{
		id: "pooler", look: lookAtPooler,
		judge: []Finding{
			sound("pooler", "none", "none"),
			sound("pooler", "apart", "one that keeps a server connection for each client"),
			sound("pooler", "sound", evidence),
			{
				ID: "pooler_statement_mode", Severity: SeverityError,
				What:     "the pooler runs single statements and no transactions: every call is refused",
				Evidence: "{refusal}", Fix: "pool_mode = transaction, or session, in the pooler's configuration",
			},
			// describe_exec prepares an unnamed statement in one round trip and runs it in the
			// next. No pooler tracks unnamed statements, so it can run another client's (measured).
			{
				ID: "pooler_exec_mode", Severity: SeverityError, when: "mixed", Evidence: evidence, Fix: fix,
				What: "outside transactions the exec mode of this URL can run the statement of another client in place of its own, without an error",
			},
			{
				ID: "pooler_exec_mode", Severity: SeverityError, when: "lost", Evidence: evidence, Fix: fix,
				What: "the exec mode of this URL prepares statements on one server connection and runs them on another: " +
					"calls fail with SQLSTATE 42P05 or 26000. None runs twice",
			},
		},
	}
}

// lookAtPooler watches a pooler by two connections.
func lookAtPooler(ctx context.Context, s *session) ([]examiner.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+inspect.AnswerWait)
	defer cancel()
	one, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer one.Release()
	pid, err := serverPID(ctx, one.Conn())
	if err != nil {
		return nil, err
	}
	// A pooler answers a new connection itself, with a process id that it invents.
	if pid == one.Conn().PgConn().PID() {
		return []examiner.Row{{"none": true}}, nil
	}
	two, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("a second connection: %w", err)
	}
	defer two.Release()
	nothing := func(pgx.Tx) error { return nil }
	if begin := pgx.BeginTxFunc(ctx, one.Conn(), pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.ReadCommitted}, nothing); begin != nil {
		if _, err := serverPID(ctx, two.Conn()); err != nil { // the way is bad for another reason
			return nil, errors.Join(begin, err)
		}
		return []examiner.Row{{"pooler_statement_mode": true, "refusal": begin.Error()}}, nil
	}
	shared, err := shareServers(ctx, one.Conn(), two.Conn())
	if err != nil || !shared {
		return []examiner.Row{{"apart": true}}, err
	}
	tracked, err := tracksPrepared(ctx, one.Conn(), two.Conn())
	return []examiner.Row{execMode(one.Conn().Config().DefaultQueryExecMode, tracked)}, err
}

// execMode judges an exec mode behind a pooler whose clients share server connections.
func execMode(mode pgx.QueryExecMode, tracked bool) examiner.Row {
	mixed, lost := mode == pgx.QueryExecModeDescribeExec, mode == pgx.QueryExecModeCacheStatement && !tracked
	row := examiner.Row{"mode": strings.ReplaceAll(mode.String(), " ", "_"), "tracks": "does not track", "mixed": mixed, "lost": lost, "sound": !mixed && !lost}
	if tracked {
		row["tracks"] = "tracks"
	}
	return row
}

// shareServers reports whether two clients get the same server connection, or one
// of them several.
func shareServers(ctx context.Context, one, two *pgx.Conn) (bool, error) {
	last := map[*pgx.Conn]uint32{}
	for range poolerLooks {
		// Connection one asks twice. If a pooler alternates two server connections, two clients
		// that alternate would each keep meeting the same one.
		for _, conn := range []*pgx.Conn{one, two, one} {
			pid, err := serverPID(ctx, conn)
			if err != nil {
				return false, err
			}
			before := last[conn]
			last[conn] = pid
			if before != 0 && before != pid || last[one] == last[two] {
				return true, nil
			}
		}
	}
	return false, nil
}

// tracksPrepared reports whether the pooler tracks prepared statements by client. Both clients
// prepare another statement under the same name and run it. With tracking, each gets its answer on
// every server connection. Without, the name exists once per server connection and one client gets
// the other's answer or an error.
func tracksPrepared(ctx context.Context, one, two *pgx.Conn) (bool, error) {
	name := "dedup_doctor_" + strings.ToLower(rand.Text()[:12])
	clients := []*pgx.Conn{one, two}
	defer func() {
		for _, conn := range clients {
			if !conn.IsClosed() {
				_ = conn.Deallocate(ctx, name)
			}
		}
	}()
	for own, conn := range clients {
		if _, err := conn.Prepare(ctx, name, fmt.Sprintf("SELECT %d", own)); err != nil {
			return judgePrepared(err)
		}
	}
	for look := range poolerLooks {
		for own, conn := range clients {
			var got int
			if err := conn.QueryRow(ctx, name).Scan(&got); err != nil {
				return judgePrepared(err)
			}
			if got != own {
				return false, nil
			}
		}
		// If the pooler alternates server connections, a fixed number of queries could meet the
		// same connection each time. So each look makes one query more than the one before.
		for range look {
			if _, err := serverPID(ctx, one); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// judgePrepared interprets the error of a prepared statement: one that exists or is missing shows
// that the pooler does not track it.
func judgePrepared(err error) (bool, error) {
	const exists, missing = "42P05", "26000"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok && (server.Code == exists || server.Code == missing) {
		return false, nil
	}
	return false, fmt.Errorf("preparing a statement: %w", err)
}

// serverPID returns the process that serves the connection at the moment. It
// takes one round trip and no transaction block.
func serverPID(ctx context.Context, conn *pgx.Conn) (uint32, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	return pid, err
}
