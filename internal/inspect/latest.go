package inspect

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/internal/examiner"
)

// latestSearched is how many records are looked at for the latest ones.
const latestSearched = 2000

// Latest reads the latest records that are kept as long as those of the Deduper, among those that
// the index of due records has last. The Listing names a scope, a tool and an outcome, or none of
// them; scopes are those that are looked at, and nil means all.
func (db *Database) Latest(ctx context.Context, l *Listing, scopes []string, limit int) (found []Record, err error) {
	if l.Scope != "" {
		scopes = []string{l.Scope}
	}
	err = db.read(ctx, func(r *reader) (err error) {
		found, err = collect(r, scanRecord, latestSQL(r.table("tool_dedup"), limit), db.D.Options().Retention.Result, l.Tool, l.Outcome, scopes)
		return err
	})
	return found, err
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
