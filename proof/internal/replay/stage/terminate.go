package stage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TerminateBackend ends the backend of the application name that is inside a
// transaction and waits for its client, the latest to do so where there are
// several. It reports false where there is none on any node.
func (db *Database) TerminateBackend(ctx context.Context, applicationName string) (bool, error) {
	for _, node := range db.nodes {
		done, err := terminateBackend(ctx, node, applicationName)
		if err != nil {
			return false, fmt.Errorf("terminating a backend: %w", err)
		}
		if done {
			return true, nil
		}
	}
	return false, nil
}

func terminateBackend(ctx context.Context, node *pgxpool.Pool, applicationName string) (bool, error) {
	rows, err := node.Query(ctx, `
		SELECT pg_terminate_backend(pid)
		FROM (
			SELECT pid
			FROM pg_stat_activity
			WHERE datname = current_database()
			  AND application_name = $1
			  AND state LIKE 'idle in transaction%'
			ORDER BY state_change DESC
			LIMIT 1) held`, applicationName)
	if err != nil {
		return false, err
	}
	signaled, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	return len(signaled) == 1 && signaled[0], err
}
