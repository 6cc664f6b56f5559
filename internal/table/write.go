package table

import (
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// ErrSwallowed: the statement of the record raised nothing and wrote nothing. A trigger or
// rule that does that was added after the table was examined.
var ErrSwallowed = errors.New("dedup: a trigger or rule on tool_dedup swallowed the record")

// QueueRecord queues the statement that writes the record, to travel with the COMMIT. It
// raises when the record cannot be written, for then the server skips the COMMIT.
func (t *Table) QueueRecord(p *wire.Pipeline, e *Entry, started time.Time, outcome Outcome, result string) {
	q := t.insert
	if t.opts.ClaimFirst {
		q = t.complete
	}
	stored := wire.Text(result)
	if outcome == Broken {
		stored = wire.Param{}
	}
	p.Queue(q, wire.Text(e.Scope), wire.Text(e.Tool), wire.Text(e.Key), wire.Time(started),
		wire.Bytes(e.Fingerprint[:]), wire.Bytes(e.ArgDigests), wire.Text(string(outcome)), stored,
		wire.Age(e.Keep), wire.Age(e.Forget))
}

// ReadRecord reads the answer of the statement that QueueRecord queued, and gives r its
// times. ErrSwallowed means that nothing was written.
func ReadRecord(results *wire.Results, r *Record, e *Entry) error {
	at := &results.Room.Times[0]
	err := results.Scan(at)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrSwallowed
	}
	r.SetTimes(*at, e)
	r.SentAt = results.SentAt
	return err
}

// IsConflict reports whether an error of the record's own statement says that a
// row stood in its way, or that it came to nothing.
func IsConflict(err error) bool {
	state := wire.SQLState(err)
	return state == wire.CodeUniqueViolation || state == wire.CodeDivisionByZero
}

// Tripped reports whether the tripwire in the record's statement was touched: it
// ran in another transaction than the one that was begun. The outcome is never
// NULL otherwise. The table is not asked for: it may be a partition. Citus leaves the
// column out when it passes a worker's error on; the message names it in every language.
func Tripped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.Code == wire.CodeNotNullViolation &&
		(server.ColumnName == "outcome" || server.ColumnName == "" && strings.Contains(server.Message, "outcome"))
}
