package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reset deletes the record that was created then, whatever its age. It reports whether
// there was one.
func (t *Table) Reset(ctx context.Context, conn *pgx.Conn, id Identity, createdAt time.Time) (bool, error) {
	tag, err := conn.Exec(ctx, t.reset, id.Scope, id.Tool, id.Key, createdAt)
	return tag.RowsAffected() > 0, err
}
