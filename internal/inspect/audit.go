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

// AuditLine is a line of the audit.
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
	// ID is its place in the audit, and Now when it was read.
	ID  int64     `json:"-"`
	Now time.Time `json:"-"`
}

// Audit reads the latest lines, those before an id where it is not zero.
func (s *Search) Audit(ctx context.Context, tx pgx.Tx, schema string, before int64, limit int) ([]AuditLine, error) {
	sql, args := auditSQL(tableIn(schema, "tool_dedup_audit"), s, before, limit)
	return collect(ctx, tx, scanAudit, sql, args...)
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
	err = row.Scan(&a.ID, &a.At, &a.Actor, &a.Role, &a.Action, &a.Scope, &a.Tool, &a.Key, &a.Outcome, &a.CreatedAt, &a.Reason, &a.Now)
	a.At, a.CreatedAt = a.At.UTC(), a.CreatedAt.UTC()
	return a, err
}
