package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Begin begins a transaction that is no call's, in one round trip. It has the settings of the
// one that Open begins. started is its now().
func (t *Table) Begin(ctx context.Context, on *wire.Conn) (tx pgx.Tx, started time.Time, err error) {
	if err := on.Prepare(ctx, t.usualBegin...); err != nil {
		return nil, started, err
	}
	var s Seen
	p := on.Pipeline()
	s.ahead = t.queueBegin(p)
	s.send(ctx, p)
	s.readBegin(p)
	return s.Tx, s.At, p.Close()
}

// queueBegin queues BEGIN and what sets the transaction up, and returns how many statements
// that are.
func (t *Table) queueBegin(p *wire.Pipeline) int {
	p.Begin(&t.begin)
	p.Queue(t.setUp)
	return 2
}

// readBegin reads the answer to what queueBegin queued, if it was called.
func (s *Seen) readBegin(p *wire.Pipeline) {
	if s.ahead > 0 {
		p.Scan(nil, &s.At, nil, nil, nil)
	}
}

// QueueSameTx queues a statement that raises 22012 in another transaction than the one that began
// at started. It stands before a COMMIT that no record's statement stands before. It is sent as
// a text, because a function may have discarded what was prepared.
func QueueSameTx(p *wire.Pipeline, started *time.Time) {
	p.Queue(wire.Query{Text: `SELECT 1 / (pg_catalog.now() = $1::timestamptz)::int`}, started)
}

// QueueRefused queues a statement that raises 22012 unless the transaction sees the record of a
// refusal that was created then. It is sent as a text, for the same reason.
func (t *Table) QueueRefused(p *wire.Pipeline, id *Identity, createdAt *time.Time) {
	p.Queue(t.refused, &id.Scope, &id.Tool, &id.Key, createdAt)
}
