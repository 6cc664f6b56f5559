package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// combines reports whether effect and record of this call are sent as one statement. Only the
// first attempt is combined. After any failure the next one is separate, and finds out what the
// failure means.
//
// A statement that is its own transaction may arrive late. Where its record is remembered for
// a shorter time than that, it could arrive when the record of a later attempt is forgotten,
// and run once more. A COMMIT cannot: its transaction holds the identity until it comes. A
// call in doubt is never combined: its lock shows first what became of the lost COMMIT.
func (c *call) combines() bool {
	return c.stmt != nil && c.outcome == table.Done && !c.separate && c.Forget >= strayTime
}

// strayTime is more than a statement may be on its way to the server after its connection
// broke: kernels stop sending it again after a quarter of an hour.
const strayTime = time.Hour

// canCombine reports whether effect and record can be one statement on conn.
func (d *Deduper) canCombine(conn *pgx.Conn) bool {
	return d.combines && d.table().Profile.Combines &&
		// Else a backslash may hide where a quote ends, and so a parameter.
		conn.PgConn().ParameterStatus("standard_conforming_strings") != "off"
}

// attemptCombined is an attempt that sends effect and record as one statement.
func (c *call) attemptCombined(ctx context.Context, conn *pgx.Conn) verdict {
	if ctx.Err() != nil {
		return verdict{kind: failed, err: fmt.Errorf("dedup: before the statement: %w", contextError(ctx))}
	}
	v, _ := c.d.sendCombined(ctx, conn, []*call{c})
	if v.kind == failed {
		c.tx.failedAt = atStatement
	}
	c.separate = true // the next attempt finds out why
	return v
}

// sendCombined sends effect and record of each call as one statement, all of them in one
// pipeline, which is one transaction. culprit is the number of the call that made it fail,
// -1 where that is not known.
func (d *Deduper) sendCombined(ctx context.Context, conn *pgx.Conn, calls []*call) (v verdict, culprit int) {
	on := wire.On(conn)
	fail := func(culprit int, err error) (verdict, int) {
		wire.DropUnusable(ctx, conn, err)
		return verdict{kind: failed, err: err}, culprit
	}
	if culprit, err := d.prepareCombined(ctx, on, calls); err != nil {
		return fail(culprit, err)
	}
	latest := &calls[0].tx.latest
	*latest = d.clock.in(d.opts.CommitTimeout)
	p := on.CallersPipeline()
	if len(calls) > 1 {
		d.table().QueueArrival(p, entries(calls), latest)
	}
	for i, c := range calls {
		if err := table.QueueCombined(p, c.combinedText(calls), c.stmt.args, &c.Entry, latest, c.inPostgres()); err != nil {
			on.Stale(c.combinedText(calls))
			return fail(i, err) // nothing was sent
		}
	}
	p.Send(ctx)
	culprit = readCombined(p, calls)
	switch outcome, err := p.End(conn.PgConn()); {
	case outcome == wire.Unknown:
		return verdict{kind: unknown, err: cmp.Or(err, errNotSaid), until: *latest}, -1
	case outcome == wire.Committed:
		if err := wire.CheckSession(conn.PgConn()); err != nil { // a statement's doing: the rows came in that encoding
			return verdict{kind: unknown, err: err, until: *latest}, -1
		}
		d.clock.seen(calls[len(calls)-1].written.SeenAt)
		return verdict{kind: done}, -1
	case wire.IsUnsent(err) && len(calls) > 1: // by pgx, which does not say whose it is
		return fail(-1, err)
	case culprit >= 0 && table.MayBeStale(err):
		on.Stale(calls[culprit].combinedText(calls))
		return fail(culprit, err)
	default:
		return fail(culprit, err)
	}
}

// errNotSaid is a commit that the server has neither confirmed nor refused.
var errNotSaid = errors.New("dedup: the server has not said that it has committed")

// prepareCombined prepares the statements. culprit is the number of the call whose text the
// server refuses, -1 where it is none of theirs.
func (d *Deduper) prepareCombined(ctx context.Context, on *wire.Conn, calls []*call) (culprit int, err error) {
	if len(calls) == 1 {
		return 0, on.Prepare(ctx, calls[0].stmt.alone)
	}
	queries := []wire.Query{d.table().Arrival}
	for _, c := range calls {
		queries = append(queries, c.stmt.among)
	}
	if err = on.Prepare(ctx, wire.Distinct(queries)...); !wire.IsRaised(err) {
		return -1, err
	}
	return slices.IndexFunc(calls, func(c *call) bool { return !on.Knows(c.stmt.among) }), err
}

// combinedText is the text that a call's statement is combined in, alone or among others.
func (c *call) combinedText(calls []*call) wire.Query {
	if len(calls) > 1 {
		return c.stmt.among
	}
	return c.stmt.alone
}

// readCombined reads the records that were written. It returns the number of the call whose
// statement failed, -1 where it was none of theirs; everything behind it is missing.
func readCombined(p *wire.Pipeline, calls []*call) (culprit int) {
	arrivals := 0
	if len(calls) > 1 {
		arrivals = 1
	}
	for _, c := range calls {
		c.written = table.NewRecord(&c.Entry, table.Done, "")
		if table.ReadCombined(p, &c.Entry, &c.written); p.Failed() {
			return p.Answered() - arrivals
		}
	}
	return -1
}

// entries are what the calls bring to the table.
func entries(calls []*call) []*table.Entry {
	all := make([]*table.Entry, len(calls))
	for i, c := range calls {
		all[i] = &c.Entry
	}
	return all
}
