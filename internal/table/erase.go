package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Erased is SQL for the fingerprint of an erased record or operation, which is 32 zero bytes. The
// hash of a short argument could be guessed, so it is replaced. No arguments have this hash.
const Erased = "pg_catalog.decode('0000000000000000000000000000000000000000000000000000000000000000', 'hex')"

// eraseBatch is the number of rows of one transaction.
const eraseBatch = 1000

// Erasure erases the rows of a scope that were written before it began, in the order of their
// identities. It has three passes. The audit comes first: if the role may not change it, nothing is
// erased.
type Erasure struct {
	t          *Table
	scope      string
	tool       string // empty for all tools
	by         Operator
	before     time.Time
	passes     []erasePass // the passes that are left
	last       place       // the end of the last batch of passes[0]
	lost       lostBatch   // the batch after last, if its COMMIT failed
	notAudited bool        // the server cannot write the audit
}

// lostBatch is a batch whose COMMIT failed. The batch may be erased: Next counts it if the repeated
// batch does not end at the same row.
type lostBatch struct {
	ErasedRows
	end *place // nil if no batch is lost
}

// place is the position of a row in the order of a pass.
type place struct{ tool, key string }

// erasePass is the SQL for one table. $1 is the scope, $2 and $3 the last tool and key of the batch
// before, and $4 the time of the Erasure. end selects the last tool and key of a batch of $5 rows.
// In the others $5 and $6 are this end: a batch has both ends, as a sweep's.
type erasePass struct {
	end, erase string
	// audited is erase with lines in the audit, by the actor $7 for the reason $8.
	audited string
	// optional is true if the table may be missing.
	optional bool
	count    func(*ErasedRows, int64)
}

// ErasedRows counts the erased rows of a batch.
type ErasedRows struct {
	Records, Effects int64
	// Unaudited counts the records without a line in the audit.
	Unaudited int64
	// Reasons counts the lines of the audit.
	Reasons int64
}

// Add adds other to n.
func (n *ErasedRows) Add(other ErasedRows) {
	n.Records += other.Records
	n.Effects += other.Effects
	n.Unaudited += other.Unaudited
	n.Reasons += other.Reasons
}

// NewErasure begins to erase a scope, or a tool in it.
func (t *Table) NewErasure(ctx context.Context, conn *pgx.Conn, scope, tool string, by Operator) (*Erasure, error) {
	e := &Erasure{t: t, scope: scope, tool: tool, by: by, last: place{tool: tool}}
	schema := func(name string) string { return pgx.Identifier{t.opts.Schema, name}.Sanitize() }
	e.passes = []erasePass{
		e.pass(schema(auditTable), "r.at < $4::timestamptz AND r.action <> 'erased' AND r.reason <> ''", "reason = ''",
			func(n *ErasedRows, rows int64) { n.Reasons += rows }),
		e.pass(t.Name, "r.created_at < $4::timestamptz AND r.fingerprint <> "+Erased,
			"result = NULL, arg_digests = NULL, fingerprint = "+Erased+", expires_at = LEAST(r.expires_at, $4::timestamptz)",
			func(n *ErasedRows, rows int64) { n.Records += rows }),
		// The answer of an operation is in its record. If that is not erased, it was written later.
		e.pass(schema("tool_effect"), "r.created_at < $4::timestamptz AND r.state = 'done' AND r.twice IS NULL AND r.fingerprint <> "+Erased+`
   AND NOT EXISTS (SELECT FROM `+t.Name+` AS kept
        WHERE kept.scope = r.scope AND kept.tool = r.tool AND kept.key = r.key AND kept.fingerprint <> `+Erased+`)`,
			"fingerprint = "+Erased+`, arg_digests = NULL, input = NULL, ref = NULL, note = NULL, due_at = NULL,
       fence = GREATEST(`+Micros("$4::timestamptz")+`, r.fence + 1), changed_at = pg_catalog.statement_timestamp()`,
			func(n *ErasedRows, rows int64) { n.Effects += rows }),
	}
	e.passes[0].optional, e.passes[2].optional = true, true
	records := &e.passes[1]
	records.audited = `WITH erased AS (
` + records.erase + `
RETURNING r.scope, r.tool, r.key, r.outcome, r.created_at)
` + AuditInsert(t.opts.Schema, "erased", "$7::text", "'erased'", "outcome", "$8::text")
	return e, conn.QueryRow(ctx, "SELECT "+Micros("pg_catalog.clock_timestamp()")+onPrimary).Scan(wire.Times(&e.before))
}

// pass returns the pass through a table that sets set in the rows r for which left is true.
func (e *Erasure) pass(table, left, set string, count func(*ErasedRows, int64)) erasePass {
	rows := "r.scope = $1::text AND (r.tool, r.key) > ($2::text, $3::text)"
	if e.tool != "" {
		rows += " AND r.tool = $2::text" // every batch ends in the same tool
	}
	return erasePass{
		end: fmt.Sprintf(`SELECT tool, key FROM (
       SELECT r.tool, r.key FROM %s AS r
        WHERE %s AND %s
        ORDER BY r.tool, r.key
        LIMIT $5::bigint) AS batch
 ORDER BY tool DESC, key DESC
 LIMIT 1`, table, rows, left),
		erase: fmt.Sprintf(`UPDATE %s AS r
   SET %s
 WHERE %s AND (r.tool, r.key) <= ($5::text, $6::text) AND %s`, table, set, rows, left),
		count: count,
	}
}

// Unresolved counts the operations that need an operator, and the others without an answer.
func (e *Erasure) Unresolved(ctx context.Context, conn *pgx.Conn) (parked, open int64, err error) {
	const needs = "(state = 'parked' OR twice IS NOT NULL)"
	err = conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FILTER (WHERE %[1]s), count(*) FILTER (WHERE NOT %[1]s)
  FROM %[2]s
 WHERE scope = $1::text AND (tool = $2::text OR $2::text = '') AND (state <> 'done' OR twice IS NOT NULL)`,
		needs, pgx.Identifier{e.t.opts.Schema, "tool_effect"}.Sanitize()), e.scope, e.tool).Scan(&parked, &open)
	if wire.SQLState(err) == wire.CodeUndefinedTable {
		return 0, 0, nil
	}
	return parked, open, err
}

// Next erases the next batch in a transaction. more is false after the last one. After an error
// Next may be called again. It waits for the reply to COMMIT for up to limit.
func (e *Erasure) Next(ctx context.Context, conn *pgx.Conn, limit time.Duration) (n ErasedRows, more bool, err error) {
	p := &e.passes[0]
	var end *place
	committing := false
	erase := func(sql string, by ...any) error {
		n, end, committing = ErasedRows{}, nil, false
		return wire.InTx(ctx, conn, readWrite, limit, func(tx pgx.Tx) (err error) {
			end, err = e.batch(ctx, tx, p, sql, by, &n)
			committing = err == nil
			return err
		})
	}
	if p.audited == "" || e.notAudited {
		err = erase(p.erase)
	} else if err = erase(p.audited, e.by.Actor, e.by.Reason); CannotAudit(err) {
		err = erase(p.erase)
		e.notAudited = committing
	}
	switch {
	case p.optional && wire.SQLState(err) == wire.CodeUndefinedTable:
		end = nil
	case err != nil && !committing:
		return ErasedRows{}, true, err
	}
	if e.notAudited {
		n.Unaudited = n.Records
	}
	n = e.withLost(n, end)
	if err != nil && committing {
		if end != nil {
			e.lost = lostBatch{n, end}
		}
		return ErasedRows{}, true, err
	}
	e.lost = lostBatch{}
	if end != nil {
		e.last = *end
		return n, true, nil
	}
	e.passes, e.last = e.passes[1:], place{tool: e.tool}
	return n, len(e.passes) > 0, nil
}

// withLost adds the rows of the lost batch to n, those of the batch that repeats it and ends at
// end. If the lost batch was committed, its last row is erased, so the other batch ends elsewhere. If
// both end at the same row, only one of them erased rows: the lost COMMIT may take effect while the
// other batch waits for its rows.
func (e *Erasure) withLost(n ErasedRows, end *place) ErasedRows {
	lost := e.lost
	if lost.end != nil && (end == nil || *end != *lost.end || n == ErasedRows{}) {
		n.Add(lost.ErasedRows)
	}
	return n
}

// batch erases the next rows of a pass. end is nil if there are none left.
func (e *Erasure) batch(ctx context.Context, tx pgx.Tx, p *erasePass, sql string, by []any, n *ErasedRows) (end *place, err error) {
	set, _ := Limit(e.t.Profile, sweepWait) // until the end of the transaction
	for _, text := range append([]string{e.t.setUp.Text}, set...) {
		if _, err := tx.Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	end = &place{}
	rows := []any{e.scope, e.last.tool, e.last.key, e.before}
	err = tx.QueryRow(ctx, p.end, append(rows, int64(eraseBatch))...).Scan(&end.tool, &end.key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tag, err := tx.Exec(ctx, sql, append(append(rows, end.tool, end.key), by...)...)
	p.count(n, tag.RowsAffected())
	return end, err
}
