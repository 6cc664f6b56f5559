package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// latestSearched is how many records are looked at for the latest ones.
const latestSearched = 2000

// Latest reads the latest records that are kept for keep, among those that the index of due
// records has last. The Listing names a scope, a tool and an outcome, or none of them; scopes
// are those that are looked at, and nil means all.
func (l *Listing) Latest(ctx context.Context, tx pgx.Tx, schema string, scopes []string, keep time.Duration, limit int) ([]Record, error) {
	if l.Scope != "" {
		scopes = []string{l.Scope}
	}
	return collect(ctx, tx, scanRecord, latestSQL(tableIn(schema, "tool_dedup"), limit), keep, l.Tool, l.Outcome, scopes)
}

// latestSQL begins where records are due that are made now. Tombstones and records that are
// kept for longer may lie there as well.
func latestSQL(table string, limit int) string {
	return fmt.Sprintf(`SELECT %s FROM (
       SELECT * FROM %s WHERE %[3]s <= now() + $1::interval
        ORDER BY %[3]s DESC LIMIT %[4]d) AS last
 WHERE result IS NOT NULL AND $2::text IN ('', tool) AND $3::text IN ('', outcome) AND ($4::text[] IS NULL OR scope = ANY ($4::text[]))
 ORDER BY created_at DESC, key DESC LIMIT %d`, recordColumns, table, examiner.DueExpression, latestSearched, limit)
}
