package replay

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

// databasePrefix begins the names of a replay's databases.
const databasePrefix = "dedup_replay_"

// stopWait bounds the stop of a server and the drop of a database.
const stopWait = 20 * time.Second

// openServer takes the server of the command line, or finds or starts one.
func openServer(ctx context.Context, f *flags) (*pgserver.Server, error) {
	if f.databaseURL == "" {
		// The server keeps its own settings: the replay must hold with them.
		return pgserver.Start(ctx, &pgserver.Options{Durable: true})
	}
	u, err := url.Parse(f.databaseURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // the parser's error would show the password
		return nil, exit.Usage("--database-url: the database URL must begin with postgres://")
	}
	conn, err := pgx.Connect(ctx, f.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", u.Redacted(), err)
	}
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return &pgserver.Server{URL: f.databaseURL, Source: fmt.Sprintf("PostgreSQL %s at %s", version, u.Redacted())}, conn.Close(ctx)
}

// database is the database of one arm.
type database struct {
	*scratchdb.Database
	pool *pgxpool.Pool // the driver's, without a proxy
}

// createDatabase makes a database with the migrations and the ledger of rec. It drops the database
// if a step fails.
func createDatabase(ctx context.Context, s *pgserver.Server, rec *recording.Recording) (*database, error) {
	made, err := scratchdb.Create(ctx, s.URL, databasePrefix)
	if err != nil {
		return nil, err
	}
	db := &database{Database: made}
	if err := db.fill(ctx, rec); err != nil {
		return nil, errors.Join(fmt.Errorf("filling database %s: %w", db.Name, err), db.drop(ctx))
	}
	return db, nil
}

func (db *database) fill(ctx context.Context, rec *recording.Recording) (err error) {
	if db.pool, err = pgxpool.New(ctx, db.URL); err != nil {
		return err
	}
	if err := scratchdb.Migrate(ctx, db.pool.Config().ConnConfig); err != nil {
		return err
	}
	return ledger.Create(ctx, db.pool, rec)
}

// drop drops the database and closes its connections, even after ctx has ended.
func (db *database) drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer cancel()
	if db.pool != nil {
		db.pool.Close()
	}
	return db.Drop(ctx)
}

// hasRecord reports whether a call has its own record.
func (db *database) hasRecord(ctx context.Context, scope, tool, key string) (found bool, err error) {
	err = db.pool.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM tool_dedup
			WHERE scope = $1 AND tool = $2 AND key = $3)`, scope, tool, key).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking for a record: %w", err)
	}
	return found, nil
}

// countRecords returns the number of records.
func (db *database) countRecords(ctx context.Context) (count int, err error) {
	if err := db.pool.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&count); err != nil {
		return 0, fmt.Errorf("counting records: %w", err)
	}
	return count, nil
}

// terminate ends a backend of the application name that is inside a transaction and waits for its
// client. Of several it ends the latest waiter. It returns false if there is none.
func (db *database) terminate(ctx context.Context, applicationName string) (done bool, err error) {
	err = db.pool.QueryRow(ctx, `
		SELECT COALESCE(bool_or(pg_terminate_backend(pid)), false)
		FROM (
			SELECT pid
			FROM pg_stat_activity
			WHERE datname = current_database()
			  AND application_name = $1
			  AND state LIKE 'idle in transaction%'
			ORDER BY state_change DESC
			LIMIT 1) held`, applicationName).Scan(&done)
	if err != nil {
		return false, fmt.Errorf("terminating a backend: %w", err)
	}
	return done, nil
}
