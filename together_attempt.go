package dedup

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// jointAttempt is what one attempt of many calls came to.
type jointAttempt struct {
	attempt
	// bad is the call that decided it, where there is one; raised tells that its
	// statement did.
	bad    *entry
	raised bool
	// ran are those whose effects are committed, or perhaps are, and records what
	// was written of them.
	ran     []*entry
	records []record
}

// attempt makes one transaction of the calls that have no record yet.
func (t *together) attempt(ctx context.Context, rest []*entry) jointAttempt {
	d := t.d
	pooled, err := d.acquire(ctx)
	if err != nil {
		return jointAttempt{attempt: d.unstarted(ctx, err)}
	}
	defer d.release(ctx, pooled)
	conn := pooled.Conn()
	if err := d.trustArbiter(ctx, conn); err != nil {
		return t.unopened(ctx, conn, err)
	}
	j := d.newJointTx(conn, rest)
	if t.narrow {
		j.width = 1
	}
	// One twin is enough to wait for. The locks behind its own are left to it: else
	// two of these could hold what the other needs, again and again.
	busy, err := j.open(ctx, 1)
	if err != nil {
		return t.unopened(ctx, conn, err)
	}
	t.renewed = 0
	if bad := t.misjudged(j.started); bad != nil {
		return jointAttempt{attempt: attempt{state: attemptFailed}, bad: bad}
	}
	switch {
	case len(busy) > 0:
		return jointAttempt{attempt: attempt{state: attemptBusy}, bad: busy[0]}
	case len(j.entries) == 0, j.stopped:
		return jointAttempt{attempt: attempt{state: attemptFound}}
	case slices.ContainsFunc(j.entries, func(e *entry) bool { return !e.c.provable() }):
		return jointAttempt{attempt: attempt{state: attemptFailed, err: errForgotten}}
	}
	return t.attemptOn(ctx, j)
}

// unopened is doCall.unopened for the calls together.
func (t *together) unopened(ctx context.Context, conn *pgx.Conn, err error) jointAttempt {
	dropSpoiled(ctx, conn, err)
	if sqlState(err) == codePreparedMissing && t.renewed < t.d.pool.Stat().MaxConns() {
		t.renewed++
		return jointAttempt{attempt: attempt{state: attemptAgain}}
	}
	return jointAttempt{attempt: t.d.unstarted(ctx, hintPooler(err))}
}

// attemptOn is attempt in a transaction that has been opened.
func (t *together) attemptOn(ctx context.Context, j *jointTx) jointAttempt {
	// All the calls share one transaction, so that one lock proves the end of an
	// earlier attempt.
	alone := t.d.conclusive() && len(j.locked) > 0
	if f := j.perform(ctx); f != nil {
		if f.unplaced {
			t.narrow = true
			return jointAttempt{attempt: attempt{state: attemptAgain, alone: alone}}
		}
		return f.attempt(ctx, j, alone)
	}
	err := checkSession(j.conn.PgConn())
	if ctx.Err() != nil { // nothing was sent yet: a definite end
		err = fmt.Errorf("dedup: before commit: %w", contextError(ctx))
	}
	if err != nil {
		return jointAttempt{attempt: attempt{state: attemptFailed, err: err, alone: alone}}
	}
	records, what, f := j.commit(ctx)
	switch what {
	case commitDone:
		return jointAttempt{attempt: attempt{state: attemptExecuted}, ran: j.entries, records: records}
	case commitUnknown:
		return jointAttempt{attempt: attempt{state: attemptUnknown, err: f.err}}
	default:
		return f.attempt(ctx, j, alone)
	}
}

// attempt is what an attempt came to that ended with a fault.
func (f *fault) attempt(ctx context.Context, j *jointTx, alone bool) jointAttempt {
	dropSpoiled(ctx, j.conn, f.err)
	state := attemptUndecided
	if f.busy {
		state = attemptBusy
	}
	return jointAttempt{attempt: attempt{state: state, failure: f.failure, alone: alone}, bad: f.entry, raised: f.raised}
}

// resolve is Deduper.resolve for the call that made an attempt fail. A failure of
// nobody's, such as one of COMMIT, may be a lost race of any.
func (t *together) resolve(ctx context.Context, a jointAttempt) jointAttempt {
	if a.bad == nil {
		return jointAttempt{attempt: t.resolveAll(ctx, a.attempt)}
	}
	if a.raised && !a.bad.c.reprepared && !IsTransient(a.failure.err) && !a.failure.lost && ctx.Err() == nil {
		// It may have been prepared before somebody changed a type, and is prepared
		// anew now. Asked once more, what it raises is its own.
		a.bad.c.reprepared = true
		return jointAttempt{attempt: attempt{state: attemptAgain, alone: a.alone}}
	}
	blamed := isPlainError(a.failure.err)
	if a.raised {
		a.failure.err = a.bad.c.sql.explain(a.failure.err)
	}
	own := t.d.resolve(ctx, a.bad.c.req, a.attempt)
	own.alone = a.alone // that its own identity is free proves nothing without a lock
	if own.state == attemptRetry && !blamed {
		a.bad = nil // a connection that broke, say
	}
	return jointAttempt{attempt: own, bad: a.bad}
}

func (t *together) resolveAll(ctx context.Context, a attempt) attempt {
	if ctx.Err() != nil {
		return attempt{state: attemptFailed, err: withContext(ctx, a.failure.err), alone: a.alone}
	}
	rest := unsettled(t.sorted)
	if len(t.lookUp(ctx, t.d, rest)) < len(rest) {
		return attempt{state: attemptFound, alone: a.alone}
	}
	state, err := a.failure.ownState(&request{})
	return attempt{state: state, err: err, alone: a.alone}
}
