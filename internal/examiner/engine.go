package examiner

import "context"

// Engine is the kind of a server.
type Engine int

const (
	// Unknown speaks the protocol of PostgreSQL, or has not been asked yet.
	Unknown Engine = iota
	// Postgres is PostgreSQL itself.
	Postgres
	// Citus is PostgreSQL with the extension Citus, whether tool_dedup is distributed
	// already or not: that can happen while calls are running.
	Citus
)

// engineSQL is the number of the Engine.
const engineSQL = `
        CASE WHEN pg_catalog.version() !~ '^PostgreSQL [0-9]+([.]|beta|rc|devel| |$)' OR pg_catalog.version() ~ '-YB-' THEN 0
             WHEN EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'citus') THEN 2
             ELSE 1 END`

// FindEngine asks a server what it is, in one round trip.
func FindEngine(ctx context.Context, db Querier) (Engine, error) {
	var engine Engine
	err := db.QueryRow(ctx, "SELECT"+engineSQL).Scan((*int)(&engine))
	return engine, err
}
