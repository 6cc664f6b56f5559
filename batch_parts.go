package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// parts answers the calls of a batch that were taken together. They share transactions for
// as long as that goes well; each call that cannot goes alone, as DoStatement does.
type parts struct {
	ctx context.Context
	d   *Deduper
	// replays is true when the calls before held some that had been made before: then it is
	// worth to look before anything is sent.
	replays bool
	// alone are the calls to go alone. splits is how many more calls may make a part fail
	// before all that is left goes alone.
	alone  []*batchCall
	splits int
	// renewed counts the connections that were given up because their prepared statements
	// were gone.
	renewed int32
}

// batchCall is a call of a batch.
type batchCall struct {
	call
	first *batchCall // an earlier one with the same identity
	err   error      // its error, where it has no record
}

// run answers every call. Those whose identity has come before in the same batch follow the
// first.
func (b *parts) run(ctx context.Context, d *Deduper, calls []*batchCall) {
	b.ctx, b.d, b.alone, b.renewed = ctx, d, nil, 0
	once, twins := split(calls)
	if b.replays || slices.ContainsFunc(once, func(c *batchCall) bool { return c.lookFirst }) {
		b.replays = false
		once = b.lookUp(once)
	}
	b.splits = max(minSplits, len(once)/4)
	for part := range slices.Chunk(once, table.MaxLocks) { // each call has its lock
		b.send(part)
	}
	var outage *exhaustion
	for _, c := range append(b.alone, twins...) {
		switch {
		case c.first != nil && c.first.err == nil:
			c.rec = c.first.rec
		case outage != nil && ctx.Err() == nil: // all would wait as long, one after the other
			c.err = c.exhaust(outage)
		default:
			c.err = c.do(c.span.context(ctx))
			if c.exhausted != nil && c.exhausted.outage {
				outage = c.exhausted
			}
		}
	}
}

// minSplits is how many calls may make a part fail before all that is left goes alone. Of many
// calls it may be a quarter.
const minSplits = 3

// split returns the calls that may go together, sorted by identity so that two batches do not
// wait for each other crosswise, and those whose identity has come before. It leaves out those
// that could not be taken.
func split(calls []*batchCall) (once, twins []*batchCall) {
	firsts := make(map[table.Identity]*batchCall, len(calls))
	for _, c := range calls {
		switch first := firsts[c.Identity]; {
		case c.err != nil:
		case first != nil:
			c.first = first
			twins = append(twins, c)
		default:
			firsts[c.Identity] = c
			once = append(once, c)
		}
	}
	slices.SortFunc(once, func(a, b *batchCall) int { return a.Compare(b.Identity) })
	return once, twins
}

// send sends a part in one transaction. Where a call makes it fail, that call goes alone;
// those before it have proved to go through, and those behind it have not been tried: each
// is a part of its own, so that a statement runs at most twice here, unless a race undoes a
// part once more.
func (b *parts) send(part []*batchCall) {
	part = b.sendable(part)
	if len(part) < 2 || b.splits < 0 {
		b.alone = append(b.alone, part...)
		return
	}
	v, culprit, sent := b.attempt(part)
	switch {
	case v.kind == done:
		b.renewed = 0
		for _, c := range part {
			c.err = c.settle(b.ctx)
		}
	case wire.SQLState(v.err) == wire.CodePreparedMissing && b.renewed < b.d.pool.Stat().MaxConns():
		b.renewed++ // somebody has discarded what was prepared
		b.send(part)
	case v.kind == unknown:
		for _, c := range part {
			c.doubt.add(v.err, c.tried, v.until)
		}
		b.alone = append(b.alone, part...)
	case !sent && v.err == nil: // they cannot be combined
		b.alone = append(b.alone, b.lookUp(part)...)
	case !sent: // each finds out for itself
		b.alone = append(b.alone, part...)
	default:
		b.splits--
		b.split(part, culprit, v.err)
	}
}

// split sends the calls of a part that failed because of culprit, or because of nobody knows
// which where that is -1.
func (b *parts) split(part []*batchCall, culprit int, err error) {
	rest := part
	if table.IsRecordInTheWay(err) { // and then others were most likely made before as well
		rest = b.lookUp(part)
	}
	switch {
	case culprit >= 0:
		part[culprit].separate = true
		b.send(part[:culprit])
		b.send(part[culprit : culprit+1])
		b.send(part[culprit+1:])
	case len(rest) < len(part) || slices.ContainsFunc(rest, func(c *batchCall) bool { return !c.combines() }):
		b.send(rest)
	case wire.IsUnsent(err): // by pgx, which does not say whose arguments it cannot encode
		b.send(part[:len(part)/2])
		b.send(part[len(part)/2:])
	default:
		b.alone = append(b.alone, part...)
	}
}

// sendable returns the calls that can be combined; others without a record go alone.
func (b *parts) sendable(calls []*batchCall) (part []*batchCall) {
	for _, c := range calls {
		switch {
		case c.rec != nil:
		case c.combines():
			part = append(part, c)
		default:
			b.alone = append(b.alone, c)
		}
	}
	return part
}

// attempt makes one transaction of a part. sent is false where it was not tried, because the
// calls cannot be combined or there is no connection to be had.
func (b *parts) attempt(part []*batchCall) (v verdict, culprit int, sent bool) {
	pooled, err := b.d.acquire(b.ctx)
	if err != nil {
		return verdict{kind: failed, err: err}, -1, false
	}
	defer b.d.release(b.ctx, pooled)
	conn := pooled.Conn()
	err = b.d.checkTable(b.ctx, conn)
	if err != nil {
		wire.DropUnusable(b.ctx, conn, err)
	} else {
		err = b.ctx.Err()
	}
	if err != nil || !b.d.canCombine(conn) {
		return verdict{kind: failed, err: err}, -1, false
	}
	now, calls := time.Now(), make([]*call, len(part))
	for i, c := range part {
		c.attempts++
		c.tried = now
		calls[i] = &c.call
	}
	v, culprit = b.d.sendCombined(b.ctx, conn, calls)
	return v, culprit, true
}

// lookUp looks calls up in one round trip and returns those that have no record. Where it
// fails, whatever comes next meets the same fault and says so.
func (b *parts) lookUp(part []*batchCall) (rest []*batchCall) {
	if len(part) > 0 {
		entries := make([]*table.Entry, len(part))
		for i, c := range part {
			entries[i] = &c.Entry
		}
		_ = b.d.onConn(b.ctx, func(on *wire.Conn) error {
			return b.d.table().LookUpAll(b.ctx, on, entries, func(n int, s table.Seen) {
				part[n].seen = s
				part[n].lookedUp()
			})
		})
	}
	for _, c := range part {
		if c.rec == nil {
			rest = append(rest, c)
		}
	}
	b.replays = b.replays || len(rest) < len(part)
	return rest
}
