package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// stand is where a measurement takes place: a server that is its own, and
// somewhere to tell how far it has come.
type stand struct {
	url    string
	source string // of the server
	say    func(format string, args ...any)
}

// serverSettings are those of a production server of this size. Checkpoints are
// spaced by time alone: with the default of 1 GB of WAL a filling would force
// one after the other.
func serverSettings() map[string]string {
	return map[string]string{"shared_buffers": "1GB", "max_wal_size": "16GB"}
}

// serve starts a server with further settings, hands it to measure, and stops it.
func serve(ctx context.Context, further map[string]string, say func(string, ...any), measure func(stand) error) (err error) {
	settings := serverSettings()
	maps.Copy(settings, further)
	s, err := server.Start(ctx, server.Options{Settings: settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(ctx)) }()
	say("%s", s.Source)
	return measure(stand{url: s.URL, source: s.Source, say: say})
}

// pool opens conns connections at once: a connection that is made while the
// clock runs would be measured with the call.
func (s stand) pool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	return server.Pool(ctx, s.url, conns)
}

// machine says what is measured on.
func (s stand) machine(ctx context.Context) (report.Machine, error) {
	pool, err := s.pool(ctx, 1)
	if err != nil {
		return report.Machine{}, err
	}
	defer pool.Close()
	m, err := server.Machine(ctx, pool)
	m.Source = s.source
	return m, err
}

// field makes a new schema with the table of records and a table for effects to
// write to. One that is there is dropped.
func (s stand) field(ctx context.Context, schema string) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return fmt.Errorf("making schema %s: %w", schema, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	name := pgx.Identifier{schema}.Sanitize()
	for _, statement := range []string{
		"DROP SCHEMA IF EXISTS " + name + " CASCADE",
		"CREATE SCHEMA " + name,
		"SET search_path = " + name,
		way.Effects,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("making schema %s: %w", schema, err)
		}
	}
	return way.CreateRecords(ctx, conn)
}

// drop removes a schema, whose table may hold gigabytes.
func drop(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	_, err := pool.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}
