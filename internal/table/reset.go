package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// resetSQL are the statements that free an identity and that resolve a broken record, each with a
// line in the audit and without.
type resetSQL struct{ operation, audited, plain, resolvedAudited, resolved string }

func newResetSQL(schema, table string) resetSQL {
	const counts = `SELECT (SELECT count(*) FROM freed), `
	// The record's times begin anew, as if it were written now.
	resolved := fmt.Sprintf(`WITH freed AS (
UPDATE %[1]s
   SET outcome = 'done', result = $6::text,
       expires_at = pg_catalog.statement_timestamp() + $7::interval, forget_at = pg_catalog.statement_timestamp() + $8::interval
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND created_at = $4::timestamptz AND outcome = $5::text
RETURNING scope, tool, key, created_at)`, table)
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
		resolvedAudited: resolved + `, audited AS (
` + AuditInsert(schema, "freed", "$9::text", "'happened'", "$5::text", "$10::text") + `
RETURNING 1)
` + counts + `(SELECT count(*) FROM audited)`,
		resolved: resolved + `
` + counts + `0::bigint`,
	}
}

// readWrite are the options of a transaction without a call.
var readWrite = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// IsOperation reports whether the identity belongs to an effect outside the database. It is
// false if the role may not read the table of these effects.
func (t *Table) IsOperation(ctx context.Context, conn *pgx.Conn, id Identity) (is bool, err error) {
	err = conn.QueryRow(ctx, t.reset.operation, id.Scope, id.Tool, id.Key).Scan(&is)
	if state := wire.SQLState(err); state == wire.CodeUndefinedTable || state == wire.CodeInsufficientPrivilege {
		return false, nil
	}
	return is, err
}

// Reset deletes the record that was created at createdAt, whatever its age. The same statement adds
// a line to the audit, if there is one. Reset reports whether there was a record, and whether the
// audit has the line. It waits for the reply to COMMIT for up to limit.
func (t *Table) Reset(ctx context.Context, conn *pgx.Conn, limit time.Duration, id Identity, createdAt time.Time, by Operator) (freed, audited bool, err error) {
	return changeAudited(ctx, conn, limit, t.reset.audited, t.reset.plain, by, id.Scope, id.Tool, id.Key, createdAt)
}

// changeAudited changes a record with the statement that adds a line to the audit, or with the
// plain one if there is no audit.
func changeAudited(ctx context.Context, conn *pgx.Conn, limit time.Duration, audited, plain string, by Operator, args ...any) (changed, written bool, err error) {
	var records, lines int64
	change := func(sql string, args ...any) error {
		return wire.InTx(ctx, conn, readWrite, limit, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sql, args...).Scan(&records, &lines)
		})
	}
	if err = change(audited, append(slices.Clip(args), by.Actor, by.Reason)...); CannotAudit(err) {
		err = change(plain, args...)
	}
	return records > 0, lines > 0, MayNotAudit(err)
}

// Resolve sets the result of a broken record, if the record is still the one in seen. It stores no
// result if that record or e keeps none. The same statement adds a line to the audit, if there is
// one. Resolve reports whether the record was still there, and whether the audit has the line. It
// waits for the reply to COMMIT for up to limit.
func (t *Table) Resolve(ctx context.Context, conn *pgx.Conn, limit time.Duration, e *Entry, seen *Record, result string, by Operator) (resolved, audited bool, err error) {
	stored, keep := &result, e.Keep
	if e.Keep == 0 || !seen.Kept() {
		// expires_at must be before created_at. An hour is longer than the time since the look-up.
		stored, keep = nil, -seen.Age()-time.Hour
	}
	return changeAudited(ctx, conn, limit, t.reset.resolvedAudited, t.reset.resolved, by,
		e.Scope, e.Tool, e.Key, seen.CreatedAt, string(seen.Outcome), stored, keep, e.Forget)
}

// auditTable records what operators did to calls.
const auditTable = "tool_dedup_audit"

// Operator is the actor and the reason of an audit line.
type Operator struct{ Actor, Reason string }

// AuditInsert is an INSERT of an audit line for each row of from, which has the columns scope,
// tool, key and created_at. The others are SQL expressions.
func AuditInsert(schema, from, actor, action, outcome, reason string) string {
	const role = "session_user::text"
	return fmt.Sprintf(`INSERT INTO %s (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
SELECT pg_catalog.statement_timestamp(), COALESCE(NULLIF(%[3]s, ''), %[4]s), %[4]s, %[5]s, scope, tool, key, %[6]s, created_at, %[7]s
  FROM %[2]s`, pgx.Identifier{schema, auditTable}.Sanitize(), from, actor, role, action, outcome, reason)
}

// auditBroken returns the audit line of a broken record, or of a committed claim.
func auditBroken(schema, table string) string {
	return AuditInsert(schema, table, "''", "'broken'", "outcome", "$4::text") + `
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND outcome IN ('broken', 'claimed')`
}

// AuditBroken adds an audit line for a broken record, if there is an audit. It waits for the reply
// to COMMIT for up to limit.
func (t *Table) AuditBroken(ctx context.Context, conn *pgx.Conn, limit time.Duration, id *Identity, reason string) error {
	err := wire.InTx(ctx, conn, readWrite, limit, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, t.auditBroken, id.Scope, id.Tool, id.Key, Storable(reason))
		return err
	})
	if CannotAudit(err) {
		return nil
	}
	return MayNotAudit(err)
}

// CannotAudit reports whether the server refused a statement with an audit line because there is no
// audit: the table is missing, or the server does not accept statements on tables of both kinds, as
// Citus does not.
func CannotAudit(err error) bool {
	state := wire.SQLState(err)
	return state == wire.CodeUndefinedTable || state == wire.CodeFeatureNotSupported
}

// ErrMayNotAudit: a statement was refused because of its audit line.
var ErrMayNotAudit = errors.New("nothing was changed, because the audit cannot be written: the role needs INSERT on " + auditTable)

// MayNotAudit wraps err in ErrMayNotAudit if the audit line caused err. The message names the table
// in every language.
func MayNotAudit(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && server.Code == wire.CodeInsufficientPrivilege && strings.Contains(server.Message, auditTable) {
		return fmt.Errorf("%w: %w", ErrMayNotAudit, err)
	}
	return err
}

// Storable returns a text without characters that Postgres cannot store.
func Storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
