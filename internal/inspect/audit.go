package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Search is which lines of the audit are read. What is empty is not asked for.
type Search struct {
	Scope, Tool, Key string
	// Scopes are those that are looked at; nil means all.
	Scopes []string
}

// AuditLine is a line of the audit, as `dedup audit --json` writes it.
type AuditLine struct {
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
	Cursor    string    `json:"cursor,omitempty"`
	Now       time.Time `json:"-"` // when it was read

	id int64
}

// byID is where a line stands in the audit.
type byID struct{ ID int64 }

// Audit reads the latest lines, those after a cursor where it is not empty.
func (db *Database) Audit(ctx context.Context, s *Search, after string, limit int) (page Page[AuditLine], err error) {
	at, err := place[byID](after)
	if err != nil {
		return page, err
	}
	err = db.read(ctx, func(r *reader) error {
		sql, args := auditSQL(r.table("tool_dedup_audit"), s, at.ID, limit+1) // one more says that there is more
		found, err := collect(r, scanAudit, sql, args...)
		page = cut(found, limit, func(a *AuditLine) string {
			a.Cursor = cursor(byID{a.id})
			return a.Cursor
		})
		return err
	})
	return page, err
}

func auditSQL(table string, s *Search, before int64, limit int) (sql string, args []any) {
	where := "true"
	for _, name := range []struct{ column, value string }{{"scope", s.Scope}, {"tool", s.Tool}, {"key", s.Key}} {
		if name.value != "" {
			args = append(args, name.value)
			where += fmt.Sprintf(" AND %s = $%d::text", name.column, len(args))
		}
	}
	if s.Scopes != nil {
		args = append(args, s.Scopes)
		where += fmt.Sprintf(" AND scope = ANY ($%d::text[])", len(args))
	}
	if before != 0 {
		args = append(args, before)
		where += fmt.Sprintf(" AND id < $%d::bigint", len(args))
	}
	return fmt.Sprintf(`SELECT id, at, actor, role, action, scope, tool, key, outcome, created_at, reason, clock_timestamp() FROM %s
 WHERE %s
 ORDER BY id DESC LIMIT %d`, table, where, limit), args
}

func scanAudit(row pgx.CollectableRow) (a AuditLine, err error) {
	err = row.Scan(&a.id, &a.At, &a.Actor, &a.Role, &a.Action, &a.Scope, &a.Tool, &a.Key, &a.Outcome, &a.CreatedAt, &a.Reason, &a.Now)
	a.At, a.CreatedAt = a.At.UTC(), a.CreatedAt.UTC()
	return a, err
}
