package inspect

import (
	"context"
	"fmt"
	"time"
)

// AuditLine is a line of the audit. `dedup audit --json` writes it.
type AuditLine struct {
	At        time.Time `json:"at"`
	ID        string    `json:"-"`
	Actor     string    `json:"actor"`
	Role      string    `json:"role"`
	Action    string    `json:"action"`
	Scope     string    `json:"scope"`
	Tool      string    `json:"tool"`
	Key       string    `json:"key"`
	Outcome   string    `json:"outcome"`
	CreatedAt time.Time `json:"created_at"`
	Reason    string    `json:"reason"`
	Entry
}

func (a *AuditLine) place() place { return place{At: a.At, ID: a.ID} }

// Audit reads the latest lines, or those after a cursor.
func (db *Database) Audit(ctx context.Context, f *Filter, after string, limit int) (Page[AuditLine], error) {
	return pageOf(ctx, db, "audit", after, limit, func(r *reader, at place, limit int) (found []AuditLine, rest place, err error) {
		found, err = collect[AuditLine](r, f.audit(at, limit))
		return found, rest, err
	})
}

func (f *Filter) audit(before place, limit int) query {
	args := f.args()
	if before.ID != "" {
		args["at"], args["before"] = before.At, before.ID
	}
	return query{fmt.Sprintf(`SELECT at AT TIME ZONE 'UTC', id::text AS line, actor, role, action, scope, tool, key, outcome, created_at AT TIME ZONE 'UTC', reason, clock_timestamp() FROM {audit}
 WHERE %s
 ORDER BY at DESC, id DESC LIMIT %d`, filtered(args, "(at, id) < (@at::timestamptz, @before::uuid)"), limit), args}
}
