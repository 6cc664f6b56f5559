package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// brokenSearched is how many of the broken records that were written down are looked up.
const brokenSearched = 1000

// BrokenRecord is a record whose effect ended its own transaction.
type BrokenRecord struct {
	Scope, Tool, Key string
	Since            time.Time
	// Note is the error.
	Note string
	Now  time.Time
}

// Broken reads which records are broken still, the latest first. They are found by the audit.
// Scopes are those that are looked at; nil means all.
func Broken(ctx context.Context, tx pgx.Tx, schema string, scopes []string, limit int) ([]BrokenRecord, error) {
	args := []any{}
	if scopes != nil {
		args = append(args, scopes)
	}
	return collect(ctx, tx, func(row pgx.CollectableRow) (b BrokenRecord, err error) {
		err = row.Scan(&b.Scope, &b.Tool, &b.Key, &b.Since, &b.Note, &b.Now)
		b.Since = b.Since.UTC()
		return b, err
	}, brokenSQL(tableIn(schema, "tool_dedup_audit"), tableIn(schema, "tool_dedup"), scopes != nil, limit), args...)
}

// brokenSQL finds what is broken still. The records are looked up one by one, whatever the
// planner knows of them.
func brokenSQL(audit, records string, scoped bool, limit int) string {
	scope := ""
	if scoped {
		scope = " AND scope = ANY ($1::text[])"
	}
	return fmt.Sprintf(`SELECT a.scope, a.tool, a.key, max(a.at), max(a.reason), clock_timestamp()
  FROM (SELECT scope, tool, key, created_at, at, reason FROM %s WHERE action = 'broken'%s ORDER BY id DESC LIMIT %d) AS a
 CROSS JOIN LATERAL (
       SELECT FROM %s AS r
        WHERE r.scope = a.scope AND r.tool = a.tool AND r.key = a.key
          AND r.created_at = a.created_at AND r.outcome IN ('broken', 'claimed') AND r.forget_at > clock_timestamp()
        LIMIT 1) AS still
 GROUP BY a.scope, a.tool, a.key
 ORDER BY max(a.at) DESC LIMIT %d`, audit, scope, brokenSearched, records, limit)
}

// dueSQL reads since when the oldest record is due.
func dueSQL(table string) string {
	return fmt.Sprintf(`SELECT %[1]s, clock_timestamp() FROM %[2]s
 WHERE %[1]s <= now()
 ORDER BY %[1]s LIMIT 1`, examiner.DueExpression, table)
}

// DueSince reads since when the oldest record is due, zero where none is.
func DueSince(ctx context.Context, tx pgx.Tx, schema string) (since, now time.Time, err error) {
	err = tx.QueryRow(ctx, dueSQL(tableIn(schema, "tool_dedup"))).Scan(&since, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, time.Time{}, nil
	}
	return since.UTC(), now, err
}
