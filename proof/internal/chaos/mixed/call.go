package mixed

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

// behaviour is that of an effect that is a function.
type behaviour int

const (
	fine behaviour = iota
	fails
	panics
	conflicts // once: the next try is fine
)

var errEffect = errors.New("the effect failed")

// plannedPanic is raised by effects, and is no defect.
type plannedPanic struct{}

// draw is one call, or one batch of calls, with everything that is drawn for it.
type draw struct {
	way   lab.Way
	name  string // of the client and the way
	by    *client
	keys  []string
	calls []int64 // their numbers
	call  dedup.Call
	sleep float64 // seconds that an effect takes
	does  behaviour
	limit time.Duration // until the context ends
	abort bool          // DoTx: the caller rolls back
}

// draw draws the next call. house is the client of every second call, so that twins
// meet in one process as well as in several.
func (s *storm) draw(rng *rand.Rand, house *client, round int) *draw {
	d := &draw{way: lab.Ways[rng.IntN(len(lab.Ways))], by: house, limit: patience}
	if rng.IntN(2) == 0 {
		d.by = s.clients[rng.IntN(len(s.clients))]
	}
	d.name = d.by.name + " " + d.way.Name
	many := 1
	if d.way.Many {
		many = 1 + rng.IntN(keys-1)
	}
	chosen := rng.Perm(keys)[:many]
	if d.way.Name == lab.TxOfSeveral {
		slices.Sort(chosen) // who holds locks takes more of them in one order
	}
	for _, key := range chosen {
		d.keys = append(d.keys, fmt.Sprintf("%d-%d", round, key))
		d.calls = append(d.calls, s.calls.Add(1))
	}
	d.call = dedup.Call{Scope: "chaos", Tool: "effect", LookFirst: rng.IntN(4) == 0}
	d.call.Retention = s.retention(rng)
	if rng.IntN(4) == 0 {
		d.call.MaxWait = []time.Duration{-1, 3 * time.Millisecond, 50 * time.Millisecond}[rng.IntN(3)]
	}
	if rng.IntN(4) == 0 {
		d.sleep = rng.Float64() * longestEffect.Seconds()
	}
	if rng.IntN(8) == 0 {
		d.limit = time.Duration(rng.Int64N(int64(longestPatience)))
	}
	if rng.IntN(8) == 0 {
		d.does = behaviour(1 + rng.IntN(3))
	}
	d.abort = rng.IntN(8) == 0
	return d
}

// retention draws how long a record lives. Most are forgotten at once when they have
// expired. Some stay as tombstones, shortly or until Reset: a statement may refuse to
// be sent whole where its record is forgotten soon.
func (s *storm) retention(rng *rand.Rand) dedup.Retention {
	r := dedup.Retention{Result: s.shortest + time.Duration(rng.Int64N(int64(retentionSpan))), Tombstone: -1}
	switch rng.IntN(6) {
	case 0:
		r.Tombstone = time.Duration(1 + rng.Int64N(int64(retentionSpan)))
	case 1:
		r.Tombstone = 2 * time.Hour
	}
	return r
}

// make makes a drawn call and notes what came of it.
func (s *storm) make(ctx context.Context, d *draw, b *books) {
	b.begun(d)
	began, err := now(ctx, s.db)
	if err != nil {
		s.note(d, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case plannedPanic:
			s.note(d, errEffect)
		default:
			s.panicked(fmt.Errorf("%s panicked: %v\n%s", d.name, v, debug.Stack()))
		}
	}()
	record := func(answers []lab.Told) {
		for _, a := range answers {
			s.answers.Add(1)
			if a.Replayed {
				s.replays.Add(1)
			}
			b.answered(told{
				key: d.keys[a.Job], call: d.calls[a.Job], run: a.Run, created: a.Created, replayed: a.Replayed,
				began: began, way: d.name,
			})
		}
	}
	by := d.by.Client
	by.BeforeCommit = func(answers []lab.Told) error {
		switch {
		case s.bug == answersRolledBack:
			record(answers)
		case !d.abort:
			return nil
		}
		return errEffect
	}
	answers, err := d.way.Make(ctx, &by, d.jobs())
	record(answers)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range many.Unwrap() {
			s.note(d, err)
		}
		return
	}
	s.note(d, err)
}

func (d *draw) jobs() []lab.Job {
	jobs := make([]lab.Job, len(d.keys))
	for i, key := range d.keys {
		call := d.call
		call.Key, call.Args = key, key
		jobs[i] = lab.Job{Call: call, SQL: effectSQL, Args: []any{key, d.calls[i], d.sleep}, Then: d.behave}
	}
	return jobs
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
