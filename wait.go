package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long one call may still wait for its twins, all in all.
type patience struct {
	max    time.Duration // 0: until the context ends; negative: not at all
	waited time.Duration
	pause  time.Duration // the last pause between looks
	// The tracer is told once of each kind of wait.
	toldFollowing, toldLooking bool
}

// spent tells whether no more waiting is allowed.
func (p *patience) spent() bool { return p.max < 0 || p.max > 0 && p.waited >= p.max }

// wait waits for done, for at most limit where that is not 0, and for no longer
// than the call has patience. It returns ErrInFlight when that has run out and
// the context's error when it ended.
func (p *patience) wait(ctx context.Context, done <-chan struct{}, limit time.Duration) error {
	if p.spent() {
		return ErrInFlight
	}
	if p.max > 0 {
		if left := p.max - p.waited; limit == 0 || left < limit {
			limit = left
		}
	}
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	start := time.Now()
	defer func() { p.waited += time.Since(start) }()
	select {
	case <-done:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dedup: waiting for a twin: %w", contextError(ctx))
	}
}

// contextError joins a context's cause to its error, so that both are found.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Pauses between looks at a twin in another process: measured as adding a tenth
// to a fifth of the effect's own time, with at most some 30 looks a second.
const (
	firstPause  = 2 * time.Millisecond
	longPause   = 50 * time.Millisecond
	pauseGrowth = 1.25
)

// jitter draws evenly from the upper half of d, so that waiting twins do not
// look in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// fullJitter draws evenly from zero to d, so that callers that failed together
// do not come back together.
func fullJitter(d time.Duration) time.Duration { return rand.N(d + 1) }

// nextPause is the pause before the next look.
func (p *patience) nextPause() time.Duration {
	p.pause = min(max(time.Duration(float64(p.pause)*pauseGrowth), firstPause), longPause)
	return jitter(p.pause)
}

// await looks at an identity that a twin in another process holds, again and
// again and without holding a connection in between, until there is a record or
// the identity looks free. It returns ErrInFlight when the call's patience ends.
func (d *Deduper) await(ctx context.Context, req *request, p *patience, look lookFunc) (sighting, error) {
	if !p.spent() && !p.toldLooking {
		p.toldLooking = true
		d.traceWaitStart(ctx, req, false)
	}
	for {
		if err := p.wait(ctx, nil, p.nextPause()); err != nil {
			return sighting{}, err
		}
		seen, err := d.look(ctx, req, look)
		if err != nil || !seen.busy {
			return seen, err
		}
	}
}

// lookFunc is an order's peek or probe.
type lookFunc func(context.Context, *line, *request) (sighting, error)

// lookOnly is a look at the record that takes no notice of twins.
func (d *Deduper) lookOnly(ctx context.Context, on *line, req *request) (sighting, error) {
	return d.sql.look(ctx, on, req)
}

// look takes a connection for one look and gives it back, and another where what
// was prepared on that has been discarded. An error tells why the context has ended,
// where it has.
func (d *Deduper) look(ctx context.Context, req *request, look lookFunc) (seen sighting, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = withContext(ctx, err)
		}
	}()
	for renewed := int32(0); ; renewed++ {
		seen, err = d.lookOnce(ctx, req, look)
		if sqlState(err) != codePreparedMissing || renewed >= d.pool.Stat().MaxConns() {
			return seen, err
		}
	}
}

func (d *Deduper) lookOnce(ctx context.Context, req *request, look lookFunc) (seen sighting, err error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return sighting{}, err
	}
	defer d.release(ctx, conn)
	seen, err = look(ctx, lineOf(conn.Conn()), req)
	dropSpoiled(ctx, conn.Conn(), err)
	return seen, err
}

// rollbackTimeout bounds a ROLLBACK, which runs on after the caller's context
// has ended; a connection that does not answer in time is closed.
const rollbackTimeout = 5 * time.Second

// release rolls back whatever is open on conn and gives it to the pool, which
// closes it when it is not clean.
func (d *Deduper) release(ctx context.Context, conn *pgxpool.Conn) {
	rollback(ctx, conn.Conn())
	conn.Release()
}
