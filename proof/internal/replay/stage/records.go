package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
)

// HasRecord reports whether a call of a domain has a record of its own.
func (db *Database) HasRecord(ctx context.Context, domain, scope, tool, key string) (found bool, err error) {
	err = db.Of(domain).QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM tool_dedup
			WHERE scope = $1 AND tool = $2 AND key = $3)`, scope, tool, key).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking for a record: %w", err)
	}
	return found, nil
}

// CountRecords returns the number of records, of all domains.
func (db *Database) CountRecords(ctx context.Context) (all int, err error) {
	places := slices.Collect(maps.Values(db.domains))
	if !db.Schemas() {
		places = []*pgxpool.Pool{db.Pool}
	}
	for _, place := range places {
		var count int
		if err := place.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&count); err != nil {
			return 0, fmt.Errorf("counting records: %w", err)
		}
		all += count
	}
	return all, nil
}
