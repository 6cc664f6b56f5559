package dedup

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// ownTx is a transaction of the library.
type ownTx struct {
	*attempt
	pooled *pgxpool.Conn // nil if another function owns the connection, or if it was released
}

// runOn runs the attempt on a connection. The transaction may stay open.
func (own *ownTx) runOn(ctx context.Context, on *wire.Conn) ending {
	own.table, own.on, own.limit = own.c.d.table(), on, own.c.recordLimit()
	return own.run(ctx, own)
}

func (own *ownTx) open(ctx context.Context) error {
	own.rider = own.ride(ctx)
	if err := own.table.Open(ctx, own.on, &own.c.Entry, own.limit, &own.c.seen, own.rider); err != nil {
		return err
	}
	own.c.preparedMissing = 0
	own.tx = own.c.seen.Tx
	return nil
}

// ride returns the call's statement if it may ride with the look-up, else nil.
func (own *ownTx) ride(ctx context.Context) *table.Rider {
	c := own.c
	r := &c.stmt.Rider
	r.Stopped, r.Err = false, nil
	if r.Read == nil || c.written.Outcome != table.Done || c.separateTrip || !own.table.Rides() {
		return nil
	}
	own.failure.described = own.on.Described(r.Query)
	if own.table.PrepareRiders(ctx, own.on, own.limit, r.Query) != nil {
		c.separateTrip = true // where the error is reported
		return nil
	}
	return r
}

// end sends the record and COMMIT in one trip. It ignores the caller's context: a cancelled COMMIT
// has an unknown outcome, and pgx's cancel request makes Postgres show a commit that no standby has
// (measured).
func (own *ownTx) end(ctx context.Context, p *wire.Pipeline) ending {
	p.Queue(own.table.Commit)
	at := atRecord
	switch outcome, err := own.c.d.sendCommit(ctx, own.on.Conn(), p, func() { at = own.readRecord(p) }); outcome {
	case wire.Committed:
		return ending{kind: done}
	case wire.Unknown:
		return ending{kind: unknown, err: err}
	default:
		return own.failAt(at, err)
	}
}

// sendCommit sends a pipeline that ends with COMMIT. read reads the replies before COMMIT.
func (d *Deduper) sendCommit(ctx context.Context, conn *pgx.Conn, p *wire.Pipeline, read func()) (wire.CommitOutcome, error) {
	wire.LimitIO(conn, d.opts.CommitTimeout)
	defer wire.UnlimitIO(conn)
	p.SendUncancelled(ctx)
	read()
	return p.Commit(conn.PgConn())
}

func (own *ownTx) dropUnusable(ctx context.Context, err error) {
	wire.DropUnusable(ctx, own.on.Conn(), err)
}

// idleConn rolls back. It releases a lost connection to the pool, which makes a new one.
func (own *ownTx) idleConn(ctx context.Context) *wire.Conn {
	wire.Rollback(ctx, own.on.Conn())
	if !own.on.Conn().IsClosed() {
		return own.on
	}
	own.giveBack(ctx)
	return nil
}

func (own *ownTx) runNext(ctx context.Context, next *attempt) ending {
	last := own.attempt
	defer func() { own.attempt = last }()
	own.attempt = next
	return own.runOn(ctx, last.on)
}

func (own *ownTx) letGo(ctx context.Context) {
	_ = own.on.Conn().Close(ctx)
	own.giveBack(ctx)
}

func (own *ownTx) giveBack(ctx context.Context) {
	if own.pooled != nil {
		own.c.d.release(ctx, own.pooled)
		own.pooled = nil
	}
}

func (own *ownTx) look(ctx context.Context, claim bool) error {
	how := (*table.Table).LookForTwin
	if claim {
		how = (*table.Table).TryClaim
	}
	if own.idleConn(ctx) != nil {
		err := how(own.table, ctx, own.on, &own.c.Entry, &own.c.seen)
		if wire.SQLState(err) != wire.CodePreparedMissing {
			return err
		}
		own.letGo(ctx)
	}
	return own.c.d.look(ctx, &own.c.Entry, &own.c.seen, how)
}

func (own *ownTx) close(ctx context.Context, end ending) ending {
	if own.c.discarded {
		_ = own.on.Conn().Close(ctx) // pgx does not know that its statements are gone
	}
	return end
}
