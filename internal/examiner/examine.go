// Package examiner compares the tables of a database with those that the migrations make. It has
// the only list of problems, which a Deduper, migrations.Check and the doctor use.
package examiner

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Examination is the result of examining the table before the first effect.
type Examination struct {
	// Problems are the reasons why the table cannot decide races. It is empty if it can.
	Problems []string
	// Engine is the kind of server.
	Engine Engine
}

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Examine checks the tool_dedup of a schema in one round trip. It finds the decisive problems:
// those that would let an effect be committed twice, or without its record. It queries the
// catalogues and never the table, so that it cannot fail and abort a caller's transaction.
func Examine(ctx context.Context, conn *pgx.Conn, schema string) (Examination, error) {
	mode := execMode
	if conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // a pooler may support no other
	}
	q := decisiveQuery()
	var a answer
	if err := conn.QueryRow(ctx, q.sql(), mode, schema, tablesJSON(dedupTable())).Scan(&a); err != nil {
		return Examination{}, err
	}
	x := Examination{Engine: a.Engine}
	for _, p := range q.found(&a) {
		x.Problems = append(x.Problems, p.What)
	}
	return x, nil
}

// execMode takes one round trip instead of two, leaves nothing in a statement cache and works
// behind a pooler.
const execMode = pgx.QueryExecModeExec

// FindProblems finds all problems of the tables of a schema, and of the current role in using
// tool_dedup, in the best order of repair. It takes two round trips.
func FindProblems(ctx context.Context, db Querier, schema string) ([]Problem, error) {
	// A statement may name goose's table and those of Citus only if they exist.
	var there map[need]bool
	if err := db.QueryRow(ctx, thereSQL, execMode, schema, VersionTable).Scan(&there); err != nil {
		return nil, err
	}
	q := wholeQuery(schema, there)
	var a answer
	if err := db.QueryRow(ctx, q.sql(), execMode, schema, tablesJSON(Tables()...)).Scan(&a); err != nil {
		return nil, err
	}
	return q.found(&a), nil
}

// Missing is the text for a missing table.
func Missing(name string) string { return "there is no table " + name }

// Engine is the kind of a server.
type Engine int

const (
	// Unknown is a server that was not examined yet.
	Unknown Engine = iota
	// Postgres is PostgreSQL itself.
	Postgres
	// Citus is PostgreSQL with the extension Citus, even if tool_dedup is not distributed yet: it
	// may be distributed while calls are running.
	Citus
	// Other is another server with the protocol of PostgreSQL.
	Other
)

// engineSQL is SQL for the number of the Engine. A database whose version() misleads can name its
// engine: ALTER DATABASE … SET tool_dedup.engine = 'postgres', 'citus' or 'other'.
const engineSQL = `
        CASE pg_catalog.current_setting('tool_dedup.engine', true) WHEN 'postgres' THEN 1 WHEN 'citus' THEN 2 WHEN 'other' THEN 3
        ELSE CASE WHEN pg_catalog.version() !~ '^PostgreSQL [0-9]+([.]|beta|rc|devel| |$)' OR pg_catalog.version() ~ '-YB-' THEN 3
             WHEN EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus') THEN 2
             ELSE 1 END END`

// FindEngine determines the engine of a server, in one round trip.
func FindEngine(ctx context.Context, db Querier) (Engine, error) {
	var engine Engine
	err := db.QueryRow(ctx, "SELECT"+engineSQL).Scan((*int)(&engine))
	return engine, err
}
