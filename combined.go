package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// combines reports whether this attempt sends effect and record as one statement, for each
// call. Only a call's first does, and only to find out whether all goes well. Whatever
// else there is to know, what an error means above all, is found out by another attempt
// that sends them separately.
//
// A statement that is its own transaction may arrive late. Where its record is remembered
// for a shorter time than that, it could arrive when the record of a later attempt is
// forgotten, and run once more. A COMMIT cannot: its transaction holds the identity until
// it comes. Nor does a call with a lost COMMIT: whether it may run again is found out
// behind its lock.
func (g *group) combines(conn *pgx.Conn, calls []*call) bool {
	if g.together != nil || g.doubt.err != nil || !g.d.canCombine(conn) {
		return false
	}
	return !slices.ContainsFunc(calls, (*call).apart)
}

// canCombine reports whether effect and record can be one statement on conn.
func (d *Deduper) canCombine(conn *pgx.Conn) bool {
	return d.combines && d.table().Profile.Combines &&
		// Else a backslash may hide where a quote ends, and so a parameter.
		conn.PgConn().ParameterStatus("standard_conforming_strings") != "off"
}

// apart reports whether effect and record of a call cannot be one statement.
func (c *call) apart() bool { return c.stmt == nil || c.separate || c.Forget < strayTime }

// attemptCombined sends effect and record of each call as one statement, all of them in
// one round trip and one transaction.
func (g *group) attemptCombined(ctx context.Context, conn *pgx.Conn, calls []*call) verdict {
	v := verdict{calls: calls}
	end := func(state state, bad *call, err error) verdict {
		if bad == nil && len(calls) == 1 {
			bad = calls[0]
		}
		v.state, v.bad, v.err = state, bad, err
		if bad != nil {
			bad.separate = true // the next attempt finds out why
		}
		return v
	}
	if ctx.Err() != nil {
		return end(failed, nil, fmt.Errorf("dedup: before the statement: %w", contextError(ctx)))
	}
	on := wire.On(conn)
	p, bad, err := g.queueCombined(ctx, on, calls, &v.until)
	if err != nil { // nothing was sent
		wire.DropUnusable(ctx, conn, err)
		return end(undone, bad, err)
	}
	results := p.Send(ctx)
	bad, err = g.readCombined(results, calls)
	before := err != nil
	err = results.Close(err) // reads to the end, which is where the server has committed
	switch wire.OutcomeOfStatement(conn.PgConn(), err, before) {
	case wire.Committed:
		if err := wire.CheckSession(conn.PgConn()); err != nil { // a statement's doing: the rows came in that encoding
			return end(unknown, nil, err)
		}
		g.d.clock.seen(calls[len(calls)-1].written.SeenAt)
		return end(committed, nil, nil)
	case wire.Unknown:
		return end(unknown, nil, err)
	}
	if wire.IsUnsent(err) && len(calls) > 1 {
		bad, v.unplaced = nil, true
	}
	if bad != nil && table.MayBeStale(err) {
		on.Stale(bad.combined(calls))
	}
	wire.DropUnusable(ctx, conn, err)
	return end(undone, bad, err)
}

// queueCombined queues the statements of the calls, and sets the time after which the
// server refuses them. The call that it returns with an error is the one whose text or
// arguments the server or pgx refuses.
func (g *group) queueCombined(ctx context.Context, on *wire.Conn, calls []*call, latest *time.Time) (*wire.Pipeline, *call, error) {
	if len(calls) == 1 {
		c := calls[0]
		if err := on.Prepare(ctx, c.stmt.alone); err != nil {
			return nil, c, err
		}
		*latest = g.d.clock.in(g.d.opts.CommitTimeout)
		p := on.CallersPipeline()
		return p, c, table.QueueCombined(p, c.stmt.alone, c.stmt.args, &c.Entry, *latest, c.waiter.inPostgres())
	}
	queries := []wire.Query{g.d.table().Arrival}
	for _, c := range calls {
		queries = append(queries, c.stmt.among)
	}
	if err := on.Prepare(ctx, wire.Distinct(queries)...); err != nil {
		bad := slices.IndexFunc(calls, func(c *call) bool { return !on.Knows(c.stmt.among) })
		if bad < 0 || !wire.IsRaised(err) {
			return nil, nil, err
		}
		return nil, calls[bad], err
	}
	*latest = g.d.clock.in(g.d.opts.CommitTimeout)
	p := on.CallersPipeline()
	g.d.table().QueueArrival(p, entries(calls), *latest)
	for _, c := range calls {
		if err := table.QueueCombined(p, c.stmt.among, c.stmt.args, &c.Entry, *latest, c.waiter.inPostgres()); err != nil {
			on.Stale(c.stmt.among)
			return nil, c, err
		}
	}
	return p, nil, nil
}

// combined is the text that a call's statement is combined in, alone or among others.
func (c *call) combined(calls []*call) wire.Query {
	if len(calls) > 1 {
		return c.stmt.among
	}
	return c.stmt.alone
}

// strayTime is more than a statement may be on its way to the server after its
// connection broke: kernels stop sending it again after a quarter of an hour.
const strayTime = time.Hour

// readCombined reads the records that were written. It returns the call whose statement
// failed; everything behind it is missing.
func (g *group) readCombined(results *wire.Results, calls []*call) (bad *call, err error) {
	if len(calls) > 1 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	for _, c := range calls {
		c.written, err = table.ReadCombined(results, &c.Entry)
		if err != nil && !errors.Is(err, table.ErrSwallowed) {
			return c, err
		}
	}
	return nil, nil
}

// afterUndone says what comes after a combined statement that did not commit.
func (g *group) afterUndone(ctx context.Context, v verdict) (step, *call, error) {
	c := v.bad
	if !table.IsRecordInTheWay(v.err) {
		return stepAgain, nil, nil
	}
	seen, err := g.d.look(ctx, c, (*table.Table).Peek)
	switch {
	case err == nil && seen.Found:
		g.find(c, seen.Record)
	case err == nil && seen.Busy:
		return g.wait(ctx, c)
	}
	return stepAgain, nil, nil // which meets the same, if it lasts
}
