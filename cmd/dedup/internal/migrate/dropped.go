package migrate

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/migrations"
)

// droppedSQL is the condition that the migration $1 is recorded and its table $3 in
// the schema $2 is not there. Who applies it again records it in the transaction
// that makes the table, so that of several at once none forgets it after that.
const droppedSQL = `
	  FROM ` + migrations.VersionTable + `
	 WHERE version_id = $1::bigint AND is_applied AND to_regclass(format('%I.%I', $2::text, $3::text)) IS NULL`

func (s *schema) dropped(ctx context.Context, version int64, table string) (dropped bool, err error) {
	if !s.recorded {
		return false, nil
	}
	err = s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT`+droppedSQL+`)`, version, s.Schema, table).Scan(&dropped)
	if err != nil {
		return false, fmt.Errorf("looking for %s: %w", table, err)
	}
	return dropped, nil
}

// forgetDropped makes goose forget a migration whose table is not there.
func (s *schema) forgetDropped(ctx context.Context, version int64, table string) error {
	if _, err := s.db.ExecContext(ctx, `DELETE`+droppedSQL, version, s.Schema, table); err != nil {
		return fmt.Errorf("forgetting migration %d: %w", version, err)
	}
	return nil
}
