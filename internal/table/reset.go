package table

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// resetSQL are the statements that free an identity, with a line in the audit and without.
type resetSQL struct{ operation, audited, plain string }

func newResetSQL(schema, table string) resetSQL {
	const counts = `SELECT (SELECT count(*) FROM freed), `
	freed := fmt.Sprintf(`WITH freed AS (
DELETE FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND created_at = $4::timestamptz
RETURNING scope, tool, key, outcome, created_at)`, table)
	return resetSQL{
		operation: fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE scope = $1::text AND tool = $2::text AND key = $3::text)`,
			pgx.Identifier{schema, "tool_effect"}.Sanitize()),
		audited: freed + `, audited AS (
` + AuditInsert(schema, "freed", "$5::text", "'reset'", "outcome", "$6::text") + `
RETURNING 1)
` + counts + `(SELECT count(*) FROM audited)`,
		plain: freed + `
` + counts + `0::bigint`,
	}
}

// IsOperation reports whether the identity is that of an effect outside of the database. A
// role that may not read those has none.
func (t *Table) IsOperation(ctx context.Context, conn *pgx.Conn, id Identity) (is bool, err error) {
	err = conn.QueryRow(ctx, t.reset.operation, id.Scope, id.Tool, id.Key).Scan(&is)
	if state := wire.SQLState(err); state == wire.CodeUndefinedTable || state == wire.CodeInsufficientPrivilege {
		return false, nil
	}
	return is, err
}

// Reset deletes the record that was created then, whatever its age, and writes that down in
// the same statement, where there is an audit. It reports whether there was a record, and
// whether that was written down.
func (t *Table) Reset(ctx context.Context, conn *pgx.Conn, id Identity, createdAt time.Time, by Said) (freed, audited bool, err error) {
	args := []any{id.Scope, id.Tool, id.Key, createdAt}
	var records, lines int64
	err = conn.QueryRow(ctx, t.reset.audited, append(args, by.Actor, by.Reason)...).Scan(&records, &lines)
	if CannotAudit(err) {
		err = conn.QueryRow(ctx, t.reset.plain, args...).Scan(&records, &lines)
	}
	return records > 0, lines > 0, MayNotAudit(err)
}
