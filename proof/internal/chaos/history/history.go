// Package history is the campaign that records what concurrent callers of a few
// keys were told while everything fails that can, and has Porcupine decide
// whether a register of which the first result wins could have told it. Five
// broken implementations show that it would notice.
package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// callers call from so many Dedupers, each with a pool of its own.
	callers, clients, conns = 16, 4, 5
	// window is how many keys are called at a time, callsPerKey how often one is
	// called until the next takes its place.
	window, callsPerKey = 6, 12
	// roundCalls are the calls after which a history is checked.
	roundCalls = 12_000
	// plantedCalls are the most that a planted bug may take to be found, in rounds
	// of plantedRound.
	plantedCalls, plantedRound = 60_000, 1_000
	commitWait                 = 200 * time.Millisecond
)

// Run runs the campaign.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	r, err := record(ctx, l, p, p.Calls, false, withDedup)
	s.Enter(r.Arm)
	s.Details["unknown"], s.Details["reused"] = r.unknown, r.reused
	if err != nil {
		return err
	}
	found := map[string]string{}
	s.Details["planted"] = found
	for _, bug := range planted {
		r, err := record(ctx, l, p, plantedCalls, true, bug.wrap)
		if err != nil {
			return fmt.Errorf("%s: %w", bug.name, err)
		}
		s.EnterControl(r.Arm)
		if !r.Wrong() {
			found[bug.name] = "NOT FOUND"
			return fmt.Errorf("the planted bug %q was not found in %d calls", bug.name, r.Calls)
		}
		found[bug.name] = fmt.Sprintf("found after %d calls: %d violations, %d duplicates", r.Calls, r.violations, r.Duplicates)
		p.Sayf("planted bug %s: %s", bug.name, found[bug.name])
	}
	return nil
}

// caller makes one try of a call.
type caller func(ctx context.Context, c *lab.Client, in input) (run int64, err error)

// client is a process, and how it calls.
type client struct {
	*lab.Client
	call caller
}

// recorded is what came of a recording.
type recorded struct {
	lab.Arm
	unknown, reused int
	violations      int // keys whose history no register could have: they count as differing
}

// record makes calls while things fail, and checks each round's history. With
// untilWrong it ends with the first that is wrong.
func record(ctx context.Context, l *lab.Lab, p lab.Params, calls int, untilWrong bool, wrap func(client int) caller) (r recorded, err error) {
	db, err := l.CreateBehind(ctx, p.Seed, nil)
	if err != nil {
		return r, err
	}
	defer func() { _ = db.Drop(ctx) }()
	lab.ArmAnywhere(db.Proxy, p.Seed, 20)
	var all []client
	for i := range clients {
		c, err := lab.OpenClient(ctx, db.Proxy.URL(), conns, pgx.QueryExecModeCacheStatement,
			&dedup.Options{CommitTimeout: commitWait, Retry: lab.Retry(30 * time.Millisecond)})
		if err != nil {
			return r, err
		}
		defer c.Pool.Close()
		all = append(all, client{c, wrap(i)})
	}
	ending, end := context.WithCancel(ctx)
	var around sync.WaitGroup
	defer around.Wait()
	defer end()
	terminated := lab.Terminate(ending, &around, db, 40*time.Millisecond, p.Seed)

	roundCalls := roundCalls
	if untilWrong {
		roundCalls = plantedRound
	}
	for round := 0; r.Calls < calls; round++ {
		rec := &recording{round: round, rng: rand.New(rand.NewPCG(p.Seed, uint64(round))), ledger: lab.NewLedger(), started: time.Now(), planted: untilWrong}
		rec.make(ctx, all, min(roundCalls, calls-r.Calls))
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if rec.err != nil {
			return r, rec.err
		}
		tally, err := rec.ledger.Settle(ctx, db.Pool)
		if err != nil {
			return r, err
		}
		wrong, err := check(rec.ops)
		if err != nil {
			return r, err
		}
		r.Calls += len(rec.ops)
		r.unknown += rec.unknown
		r.reused += rec.reused
		r.violations += wrong
		tally.Differing += wrong
		r.Add(tally)
		r.Fault("ended backend", int(terminated.Swap(0)))
		db.TakeFaults(&r.Arm)
		if untilWrong && r.Wrong() {
			break
		}
		if !untilWrong {
			p.Sayf("%d of %d calls, %d faults, %d unknown: %d violations, %v", r.Calls, calls, r.AllFaults(), r.unknown, r.violations, r.Tally)
		}
	}
	return r, nil
}

// check counts the keys whose history no register could have.
func check(ops []porcupine.Operation) (wrong int, err error) {
	for _, partition := range model.Partition(ops) {
		switch porcupine.CheckOperationsTimeout(model, partition, lab.Patience) {
		case porcupine.Illegal:
			wrong++
		case porcupine.Unknown:
			return wrong, errors.New("a history could not be checked in time")
		}
	}
	return wrong, nil
}

// recording is the history of one round.
type recording struct {
	round   int
	rng     *rand.Rand
	ledger  *lab.Ledger
	started time.Time
	planted bool // a call without an answer is an outcome like others

	mu              sync.Mutex
	ops             []porcupine.Operation
	unknown, reused int
	next            int // the next call's number
	err             error
}

// make makes the calls of a round.
func (r *recording) make(ctx context.Context, all []client, calls int) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				in, patience, ok := r.draw(calls)
				if !ok {
					return
				}
				r.call(ctx, i, all[i%clients], in, patience)
			}
		})
	}
	wg.Wait()
}

// draw draws the next call: one of the window's keys, mostly with its usual
// arguments, sometimes by a caller that gives up early.
func (r *recording) draw(calls int) (in input, patience time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next >= calls {
		return in, 0, false
	}
	key := r.next/callsPerKey + r.rng.IntN(window)
	in = input{key: fmt.Sprintf("%d-%d", r.round, key)}
	if r.rng.IntN(8) == 0 {
		in.variant = 1
	}
	if r.rng.IntN(10) == 0 {
		patience = time.Duration(r.rng.IntN(5_000)+200) * time.Microsecond
	}
	r.next++
	return in, patience, true
}

// call makes a call until there is an answer or the caller's patience has ended.
func (r *recording) call(ctx context.Context, place int, by client, in input, patience time.Duration) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	op := porcupine.Operation{ClientId: place, Input: in, Call: int64(time.Since(r.started))}
	out := output{kind: unknown}
	err := lab.Insist(ctx, func(ctx context.Context, n int) error {
		run, err := by.call(ctx, by.Try(n), in)
		switch {
		case err == nil:
			out = output{told, run}
		case errors.Is(err, dedup.ErrKeyReused):
			out = output{kind: reused}
		default:
			return err
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && !r.planted {
		r.fail(err)
	}
	op.Output, op.Return = out, int64(time.Since(r.started))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch out.kind {
	case unknown: // it may take effect at any later time
		op.Return = math.MaxInt64
		r.unknown++
	case reused:
		r.reused++
	case told:
		r.ledger.Answered(in.key, out.run)
	}
	r.ops = append(r.ops, op)
}

// fail notes why a call got no answer at all.
func (r *recording) fail(err error) {
	r.ledger.Unanswered("")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// withDedup is the library: half of the clients call with Do, the others in turn
// with DoStatement, DoTx and Do with LookFirst.
func withDedup(client int) caller {
	var n atomic.Int64
	return func(ctx context.Context, c *lab.Client, in input) (int64, error) {
		job, way := lab.NewJob(in.key), lab.Ways[0]
		job.Call.Args = in.variant
		switch (n.Add(1) + int64(client)) % 6 {
		case 0:
			job.Call.LookFirst = true
		case 1:
			way = lab.Ways[2]
		case 2:
			// The COMMIT is the caller's own, and an answer that is swallowed is
			// waited for as long as its context lives.
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 2*c.Limit)
			defer cancel()
			way = lab.Ways[1]
		}
		answers, err := way.Make(ctx, c, []lab.Job{job})
		if err != nil {
			return 0, err
		}
		return answers[0].Run, nil
	}
}
