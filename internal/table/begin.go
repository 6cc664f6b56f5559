package table

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Begin begins a transaction without a call, in one round trip. It has the same settings as a
// transaction of Open. started is its now().
func (t *Table) Begin(ctx context.Context, on *wire.Conn) (tx pgx.Tx, started time.Time, err error) {
	if err := on.Prepare(ctx, t.usualBegin...); err != nil {
		return nil, started, err
	}
	var s Seen
	p := on.Pipeline()
	s.ahead = t.queueBegin(p)
	s.send(ctx, p)
	s.readBegin(p)
	return s.Tx, s.Started, p.Close()
}

// queueBegin queues BEGIN and the settings of the transaction, and returns the number of
// statements.
func (t *Table) queueBegin(p *wire.Pipeline) int {
	p.Begin(&t.begin)
	p.Queue(t.setUp)
	return 2
}

// readBegin reads the reply to the statements of queueBegin, if there are any.
func (s *Seen) readBegin(p *wire.Pipeline) {
	if s.ahead > 0 {
		p.Scan(nil, &s.Started, nil, nil, nil)
	}
}

// QueueSameTx queues a statement that raises 22012 unless the transaction began at started. Use it
// before a COMMIT without a record's statement. It is sent as text, because a function may have
// discarded prepared statements.
func QueueSameTx(p *wire.Pipeline, started *time.Time) {
	p.Queue(wire.Query{Text: `SELECT 1 / (pg_catalog.now() = $1::timestamptz)::int`}, started)
}

// QueueRefused queues a statement that raises 22012 unless the transaction sees the record of a
// refusal that was created at createdAt. It is sent as text for the same reason.
func (t *Table) QueueRefused(p *wire.Pipeline, id *Identity, createdAt *time.Time) {
	p.Queue(t.refused, &id.Scope, &id.Tool, &id.Key, createdAt)
}
