package dedup

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/flight"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// call is one Call on its way: what was asked, and how it went so far. One goroutine at
// a time has it.
type call struct {
	d        *Deduper
	function string // that was called
	table.Entry
	storeErrors bool
	lookFirst   bool
	began       time.Time

	// effect is what an attempt runs between look-up and record, or stmt is a statement
	// in its place. out is what comes of it is recorded as.
	effect effectFunc
	stmt   *boundStatement
	out    table.Outcome

	waiter waiter

	// rec is the identity's record, once the call has come to one; executed is true when
	// this call wrote it, recovered when it was found after a COMMIT of this call whose
	// answer was lost.
	rec                 table.Record
	executed, recovered bool
	// known is the record where it was read before the call was made, see [table.Known].
	known *table.Record
	// cause is the effect's error behind a refusal that this call recorded.
	cause error
	// err is why the call came to no record, where that is not the answer of its group.
	err      error
	attempts int

	// span is what is counted of the call, and what tracers see of it.
	span *span
	// own is the group that the call makes alone, where it is one of several; first an
	// earlier one of them with the same identity.
	own   *solo
	first *call

	// written is the record that an attempt has sent, and that counts once it is
	// committed.
	written table.Record
	// conflicts counts unique violations without a record.
	conflicts int
	// separate is true when effect and record are to be sent separately: because they were
	// sent as one statement that did not commit, and what its error means is to be found
	// out, or because a record that may be forgotten is in their way.
	separate bool
	// reprepared is true when its statement failed once already when it may have been
	// prepared for types that have changed.
	reprepared bool
	// endedTx is true when the effect ended its transaction and then panicked.
	endedTx bool
}

// effectFunc is what an attempt runs between look-up and record: it returns the text to
// record, or an error.
type effectFunc func(ctx context.Context, tx pgx.Tx) (text string, err error)

// group is one to n calls that are committed together or not at all. Do, DoTx and
// DoStatement make groups of one, DoTogether one of all its calls. DoBatch makes groups
// of those that share a trip, and then of those that could not.
type group struct {
	d *Deduper
	// calls are sorted by identity, so that two groups do not wait for each other
	// crosswise. No identity comes twice.
	calls []*call
	// together is not nil when the calls are answered together, as DoTogether promises:
	// nothing is recorded of a refusal, and a record that answers with an error ends all.
	together *together
	// part is true when the calls are a part of a batch: they are sent combined or not at
	// all.
	part bool
	// leads is the flight that the group's one call leads, nil where it leads none.
	leads *flight.Flight[shared]
	// doubt is about an earlier attempt.
	doubt    doubt
	attempts int
	// tried is when the last attempt began, outage that it ended before its transaction
	// was open because of the state that the server is in.
	tried  time.Time
	outage bool
	// renewed counts the connections that were given up, one after the other, because
	// their prepared statements were gone. When it comes to all of the pool's, a pooler
	// loses them.
	renewed int32
	// narrow is true when statements are to be sent one by one, to find out whose fault
	// it is.
	narrow bool
	// looks counts how often a call that may not wait has looked again, and metForgotten is
	// true when it saw a record the last time that may be forgotten.
	looks        int
	metForgotten bool
	// exhausted is not nil when the attempts are used up.
	exhausted *exhaustion
}

// solo is a group of one call, in one allocation.
type solo struct {
	group
	call   call
	only   [1]*call
	flight flight.Flight[shared]
	span   span
}

// alone makes s the group of its call.
func (s *solo) alone() *group {
	s.d = s.call.d
	s.only[0] = &s.call
	s.calls = s.only[:]
	return &s.group
}

// together is the calls of one DoTogether in the caller's order.
type together struct {
	calls []*call
}

// settled reports whether the call has come to an end.
func (c *call) settled() bool { return c.err != nil || c.rec.Outcome != "" }

// unsettled returns the calls that have not come to an end.
func unsettled(calls []*call) []*call {
	if !slices.ContainsFunc(calls, (*call).settled) {
		return calls
	}
	return slices.DeleteFunc(slices.Clone(calls), (*call).settled)
}

// entries are what calls bring to the table.
func entries(calls []*call) []*table.Entry {
	all := make([]*table.Entry, len(calls))
	for i, c := range calls {
		all[i] = &c.Entry
	}
	return all
}

// find settles a call with a record that was there.
func (g *group) find(c *call, rec table.Record) {
	c.rec, c.recovered = rec, g.doubt.err != nil && c.during(&rec)
}

// during reports whether a record was written since the call was made. Two spans of time
// are compared, one by the database's clock and one by this machine's, and they may
// go a little apart.
func (c *call) during(rec *table.Record) bool {
	return rec.Age() <= time.Since(c.began)+10*time.Millisecond
}

// judge says what a record of the call's identity answers: nil when its result is
// the answer, else the error that is. Misuse comes before age, so that a reused
// key is answered as such as long as the identity is remembered.
func (c *call) judge(r *table.Record) error {
	switch {
	case r.IsBroken():
		return c.answer(Error{Answer: ErrBroken, FirstAt: r.CreatedAt})
	case r.Fingerprint != c.Fingerprint:
		changed, complete := canon.ChangedArgs(r.ArgDigests, c.ArgDigests)
		return c.answer(Error{Answer: ErrKeyReused, FirstAt: r.CreatedAt, Changed: changed, Complete: complete})
	case r.Expired():
		return c.answer(Error{Answer: ErrExpired, FirstAt: r.CreatedAt, ExpiredAt: r.ExpiresAt, ForgetAt: r.ForgetAt})
	case r.Outcome == table.Refused:
		return decodeRefusal(r.Result, r.CreatedAt)
	default:
		return nil
	}
}

// answer puts the call's names into an error.
func (c *call) answer(err Error) *Error {
	err.Scope, err.Tool, err.KeyHash = c.Scope, c.Tool, KeyHash(c.Key)
	return &err
}

// refusal is the error of a call that recorded one.
func (c *call) refusal() error {
	if c.rec.Outcome != table.Refused {
		return nil
	}
	return firstRefusal(c.rec.Result, c.rec.CreatedAt, c.cause)
}

// misjudged returns the first call that has a record which answers with an
// error. A twin among the calls is judged by what its first is going to write, as
// if that had been at started.
func (t *together) misjudged(started time.Time) *call {
	if t == nil {
		return nil
	}
	for _, c := range t.calls {
		of := c
		if c.first != nil {
			of = c.first
		}
		rec := of.rec
		if of.recovered && rec.Outcome == table.Done && rec.Fingerprint == c.Fingerprint {
			continue // it is committed, and so are the others; its result may have expired since
		}
		if !of.settled() {
			rec = table.NewRecord(&of.Entry, table.Done, "")
			rec.SetTimes(started, &of.Entry)
		}
		if c.judge(&rec) != nil {
			c.rec = rec
			return c
		}
	}
	return nil
}

// owner names the call to the effects inside it.
func (c *call) owner() guard.Owner {
	return guard.Owner{Pool: c.d.pool, Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}
