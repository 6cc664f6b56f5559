package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// window is the number of keys that are called at a time.
	window = 6
	// longestRetention bounds the retention of results and of short tombstones.
	longestRetention = 130 * time.Millisecond
	// longestEffect bounds the time of the effects that are drawn to be slow.
	longestEffect = 8 * time.Millisecond
	// An impatient caller gives up after longestPatience. The others give the first try patience,
	// and then try again.
	longestPatience, patience = 15 * time.Millisecond, 2 * time.Second
)

// behaviour is one way in which an effect behaves.
type behaviour int

const (
	fine behaviour = iota
	fails
	panics
	conflicts // once: the next try is fine
)

var errEffect = errors.New("the effect failed")

// plannedPanic is the panic of an effect. It is not a defect.
type plannedPanic struct{}

// draw is one call or one batch of calls, with everything that was drawn for it.
type draw struct {
	way     lab.Way
	by      *lab.Client
	keys    []string
	variant int // of the arguments
	call    dedup.Call
	sleep   float64 // seconds that an effect takes
	does    behaviour
	limit   time.Duration // until the context of the first try ends
	once    bool          // the caller does not try again
	abort   bool          // DoTx: the caller rolls back
}

func (m made) String() string {
	mode := m.by.Pool.Config().ConnConfig.DefaultQueryExecMode
	return fmt.Sprintf("%s of %s (%s)", m.way.Name, m.key, mode)
}

// draw draws the next call. Every second call uses the client house, so that twins meet in one
// process and in several.
func (r *round) draw(rng *rand.Rand, house *lab.Client) *draw {
	d := &draw{way: r.ways[rng.IntN(len(r.ways))], by: house, limit: patience}
	if rng.IntN(2) == 0 {
		d.by = r.clients[rng.IntN(len(r.clients))]
	}
	many := 1
	if d.way.Many {
		many = 1 + rng.IntN(window-1)
	}
	places := rng.Perm(window)[:many]
	if d.way.Name == lab.TxOfSeveral {
		slices.Sort(places) // callers take locks in one order
	}
	first := r.firstKey()
	for _, place := range places {
		d.keys = append(d.keys, r.key(first+place))
	}
	r.made.Add(int64(many))
	d.call = dedup.Call{Scope: "chaos", Tool: "effect", LookFirst: rng.IntN(4) == 0, Retention: r.retention(rng)}
	if rng.IntN(8) == 0 {
		d.variant = 1
	}
	if rng.IntN(4) == 0 {
		d.call.MaxWait = []time.Duration{-1, 3 * time.Millisecond, 50 * time.Millisecond}[rng.IntN(3)]
	}
	if rng.IntN(4) == 0 {
		d.sleep = rng.Float64() * longestEffect.Seconds()
	}
	if rng.IntN(8) == 0 {
		d.limit, d.once = time.Duration(rng.Int64N(int64(longestPatience))), true
	}
	if rng.IntN(8) == 0 {
		d.does = behaviour(1 + rng.IntN(3))
	}
	d.abort = rng.IntN(8) == 0
	return d
}

// retention draws a record's retention. Most records are forgotten when they expire. Some stay as
// tombstones for a short time or until Reset: the library may refuse to send a statement whole if
// its record is soon forgotten.
func (s *storm) retention(rng *rand.Rand) (r dedup.Retention) {
	if s.lasting {
		return r
	}
	some := func() time.Duration { return time.Millisecond + time.Duration(rng.Int64N(int64(longestRetention))) }
	r = dedup.Retention{Result: some(), Tombstone: -1}
	switch rng.IntN(6) {
	case 0:
		r.Tombstone = some()
	case 1:
		r.Tombstone = 2 * time.Hour
	}
	return r
}

// make repeats a drawn call until it has an answer or a lasting error.
func (r *round) make(ctx context.Context, d *draw) {
	err := lab.Insist(ctx, func(ctx context.Context, n int) error {
		err := r.try(ctx, d, n)
		if d.once || outcomeOf(err) != unanswered {
			return nil
		}
		return err
	})
	if err != nil {
		r.note(func() { r.unanswered++ })
	}
}

// try makes a drawn call once. Each try is a call of its own in the books.
func (r *round) try(ctx context.Context, d *draw, n int) error {
	many := int64(len(d.keys))
	first := r.tries.Add(many) - many
	var jobs []lab.Job
	for i, key := range d.keys {
		call := d.call
		call.Key, call.Args = key, d.variant
		jobs = append(jobs, lab.Job{Call: call, SQL: effectSQL, Args: []any{key, first + int64(i), d.sleep}, Then: d.behave})
	}
	began := r.now(ctx, r.db)
	answers, err := d.perform(ctx, n, jobs)
	ended := r.now(ctx, r.db)
	r.note(func() {
		for i, key := range d.keys {
			r.calls[first+int64(i)] = made{draw: d, key: key, began: began, ended: ended, err: err}
		}
		for _, a := range answers {
			m := r.calls[first+int64(a.Job)]
			m.told = &a
			r.calls[first+int64(a.Job)] = m
		}
	})
	return err
}

func (d *draw) perform(ctx context.Context, n int, jobs []lab.Job) (answers []lab.Told, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n+1)*d.limit)
	defer cancel()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case plannedPanic:
			err = errEffect
		default:
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	by := *d.by.Try(n)
	if d.abort {
		by.BeforeCommit = func([]lab.Told) error { return errEffect }
	}
	return d.way.Make(ctx, &by, jobs)
}

func (d *draw) behave(ctx context.Context, tx pgx.Tx) (err error) {
	switch d.does {
	case fails:
		return errEffect
	case panics:
		panic(plannedPanic{})
	case conflicts:
		d.does = fine
		_, err = tx.Exec(ctx, `DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$`)
	}
	return err
}

// outcome is the result of a call.
type outcome string

const (
	answered     outcome = "answered"
	effectFailed outcome = "effect failed"
	keyReused    outcome = "key reused"
	expired      outcome = "expired"
	unanswered   outcome = "no answer" // the next try may get one
	unexpected   outcome = "unexpected"
)

// outcomeOf returns the outcome of an error, for a batch the worst.
func outcomeOf(err error) outcome {
	if batch, ok := err.(lab.Errors); ok {
		worst := effectFailed
		for _, err := range batch {
			if o := outcomeOf(err); o == unexpected || o == unanswered && worst != unexpected {
				worst = o
			}
		}
		return worst
	}
	switch {
	case err == nil:
		return answered
	case errors.Is(err, errEffect):
		return effectFailed
	case errors.Is(err, dedup.ErrKeyReused):
		return keyReused
	case errors.Is(err, dedup.ErrExpired):
		return expired
	case dedup.IsRetryable(err), dedup.IsTransient(err), errors.As(err, &lab.OwnError{}), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unanswered
	default:
		return unexpected
	}
}
