package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// parts settles the calls of a batch that were taken together.
type parts struct {
	// replays is true when the calls before held some that had been made before: then it
	// is worth to look before anything is sent.
	replays bool
}

// run settles every call: most of them in transactions that they share, and one by one
// those that cannot be.
func (p *parts) run(ctx context.Context, d *Deduper, calls []*call) {
	once, twins := split(calls)
	if p.replays || slices.ContainsFunc(once, func(c *call) bool { return c.lookFirst }) {
		p.replays = false
		once = p.lookUp(ctx, d, once)
	}
	var outage *exhaustion
	for _, c := range append(p.share(ctx, d, once), twins...) {
		outage = c.runAlone(ctx, outage)
	}
}

// split returns the calls that may go together, sorted by identity so that two groups do
// not wait for each other crosswise, and those whose identity has come before, which
// follow their first. It leaves out what cannot be taken.
func split(calls []*call) (once, twins []*call) {
	firsts := make(map[table.Identity]*call, len(calls))
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
	slices.SortFunc(once, func(a, b *call) int { return a.Compare(b.Identity) })
	return once, twins
}

// minSplits is how many calls may make an attempt fail before what is left goes one by
// one. Of many calls it may be a quarter.
const minSplits = 3

// share settles calls in as few transactions as it takes, and returns those that are to
// go alone. Where a call makes a transaction fail, those before it have proved to go
// through, and those behind it have not been tried: each is a transaction of its own, so
// that all in all no statement runs more than twice here, but for races.
func (p *parts) share(ctx context.Context, d *Deduper, calls []*call) (alone []*call) {
	splits := max(minSplits, len(calls)/4)
	// Each has its lock: without, a twin would be waited for inside Postgres, for
	// as long as its transaction goes on.
	renewed := int32(0)
	for todo := slices.Collect(slices.Chunk(calls, table.MaxLocks)); len(todo) > 0; {
		part, apart := sortOut(todo[len(todo)-1])
		todo, alone = todo[:len(todo)-1], append(alone, apart...)
		if len(part) < 2 || splits < 0 {
			alone = append(alone, part...)
			continue
		}
		g := &group{d: d, calls: part, part: true}
		v := g.attemptPart(ctx)
		switch {
		case v.state == committed:
			renewed = 0
			continue
		case v.state == unknown:
			for _, c := range part {
				c.own.doubt.add(v.err, g.tried, v.until)
			}
			alone = append(alone, part...)
			continue
		case wire.SQLState(v.err) == wire.CodePreparedMissing && renewed < d.pool.Stat().MaxConns():
			renewed++ // somebody has discarded what was prepared
			if v.bad != nil {
				v.bad.separate = false
			}
			todo = append(todo, part)
			continue
		case v.state == again: // the calls cannot be combined
			alone = append(alone, p.lookUp(ctx, d, part)...)
			continue
		case v.state != undone: // nobody's fault: each call finds out for itself
			alone = append(alone, part...)
			continue
		}
		splits--
		rest := part
		if table.IsRecordInTheWay(v.err) { // and then others were most likely made before as well
			rest = p.lookUp(ctx, d, part)
		}
		at := slices.Index(part, v.bad)
		switch {
		case at < 0 && (len(rest) < len(part) || slices.ContainsFunc(rest, (*call).apart)):
			todo = append(todo, rest)
		case at < 0 && !v.unplaced:
			alone = append(alone, part...)
		case at < 0:
			todo = append(todo, part[len(part)/2:], part[:len(part)/2])
		default:
			if !v.bad.settled() {
				alone = append(alone, v.bad)
			}
			todo = append(todo, unsettled(part[at+1:]), unsettled(part[:at]))
		}
	}
	return alone
}

// sortOut returns the calls that can be combined, and the others.
func sortOut(calls []*call) (part, apart []*call) {
	if !slices.ContainsFunc(calls, (*call).apart) {
		return calls, nil
	}
	for _, c := range calls {
		if c.apart() {
			apart = append(apart, c)
		} else {
			part = append(part, c)
		}
	}
	return part, apart
}

// lookUp settles the calls that have a record and returns the others.
func (p *parts) lookUp(ctx context.Context, d *Deduper, calls []*call) []*call {
	if len(calls) == 0 {
		return nil
	}
	g := &group{d: d, calls: calls}
	rest := g.lookUp(ctx, calls)
	p.replays = p.replays || len(rest) < len(calls)
	return rest
}

// attemptPart makes one transaction of a part of a batch, if its calls can be combined.
func (g *group) attemptPart(ctx context.Context) verdict {
	g.tried = time.Now()
	v := g.attempt(ctx, g.calls)
	if v.state == committed || v.state == unknown || v.state == undone {
		g.count(g.calls, 1)
		for _, c := range g.calls {
			c.own.attempts++
		}
	}
	if v.state == committed {
		for _, c := range g.calls {
			g.settle(ctx, c)
		}
	}
	return v
}

// member makes s one call of several.
func (s *solo) member() *call {
	s.call.own = s
	return &s.call
}

// runAlone settles a call the way that DoStatement does. Where a call before it
// has used up its attempts in an outage, it makes none: all would wait as long, one
// after the other. It returns the outage that there is by then.
func (c *call) runAlone(ctx context.Context, outage *exhaustion) *exhaustion {
	switch {
	case c.first != nil && c.first.err == nil:
		c.follow()
	case outage != nil && ctx.Err() == nil:
		c.err = c.own.alone().exhaust(outage)
	default:
		c.err = c.own.do(c.span.context(ctx))
		if x := c.own.exhausted; x != nil && x.outage {
			return x
		}
	}
	return outage
}

// follow settles a call whose first has come to an end.
func (c *call) follow() {
	if c.err = c.first.err; c.err == nil {
		c.rec = c.first.rec
	}
}
