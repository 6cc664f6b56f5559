package stage

import (
	"context"
	"fmt"
)

// HasRecord reports whether a call has a record of its own.
func (db *Database) HasRecord(ctx context.Context, scope, tool, key string) (found bool, err error) {
	err = db.Pool.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM tool_dedup
			WHERE scope = $1 AND tool = $2 AND key = $3)`, scope, tool, key).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking for a record: %w", err)
	}
	return found, nil
}

// CountRecords returns the number of records.
func (db *Database) CountRecords(ctx context.Context) (count int, err error) {
	err = db.Pool.QueryRow(ctx, `SELECT count(*) FROM tool_dedup`).Scan(&count)
	if err != nil {
		return 0, fmt.Errorf("counting records: %w", err)
	}
	return count, nil
}
