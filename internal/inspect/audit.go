package inspect

import (
	"context"
	"fmt"
	"time"
)

// AuditLine is a line of the audit, as `dedup audit --json` writes it.
type AuditLine struct {
	ID        int64     `json:"-"`
	At        time.Time `json:"at"`
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

func (a *AuditLine) place() place { return place{ID: a.ID} }

// Audit reads the latest lines, those after a cursor where it is not empty.
func (db *Database) Audit(ctx context.Context, f *Filter, after string, limit int) (Page[AuditLine], error) {
	return pageOf(ctx, db, "audit", after, limit, func(r *reader, at place, limit int) (found []AuditLine, rest place, err error) {
		found, err = collect[AuditLine](r, f.audit(at.ID, limit))
		return found, rest, err
	})
}

func (f *Filter) audit(before int64, limit int) query {
	args := f.args()
	args["before"] = before
	return query{fmt.Sprintf(`SELECT id, at AT TIME ZONE 'UTC', actor, role, action, scope, tool, key, outcome, created_at AT TIME ZONE 'UTC', reason, clock_timestamp() FROM {audit}
 WHERE %s
 ORDER BY id DESC LIMIT %d`, filtered(args, "id < @before::bigint"), limit), args}
}
