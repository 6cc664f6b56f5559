// Package mixed is the campaign that has everything at once: five ways to call, both
// orders, every isolation level and three exec modes, on a few keys whose records
// live for milliseconds, while Sweep and Reset run, contexts are cancelled, backends
// ended and connections cut. Books in the database decide exactly whether an effect
// was doubled or lost, and whether an answer was older than its call.
package mixed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// callers call so many keys at a time.
	callers, keys = 8, 6
	// roundCalls are the calls after which the books are read and new keys begin.
	roundCalls, shortCalls = 2_000, 250
	// The long form goes on for so long, the short one for so many rounds.
	longForm, shortRounds = 10 * time.Minute, 2
	// retentionSpan is between the shortest retention and the longest.
	retentionSpan = 130 * time.Millisecond
	// longestEffect and longestPatience are for the calls that are drawn to be slow or
	// to be cancelled early; patience is for all others.
	longestEffect, longestPatience, patience = 8 * time.Millisecond, 15 * time.Millisecond, 2 * time.Second

	commitWait = 200 * time.Millisecond
	conns      = 12 // of a pool: pgx keeps the place of a broken one for a while
	// terminations are so far apart at most.
	terminations = 250 * time.Millisecond
	saidMost     = 20 // of what is wrong is described
)

// Run runs the campaign. With Params.Calls it goes on for so many calls.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	r, err := raise(ctx, l, p, none)
	s.Enter(r.Arm)
	s.Details = r.details
	if err != nil {
		return err
	}
	found := map[string]int{}
	s.Details["planted"] = found
	for _, bug := range bugs {
		r, err := raise(ctx, l, p, bug)
		if err != nil {
			return fmt.Errorf("%s: %w", bug, err)
		}
		s.EnterControl(r.Arm)
		found[string(bug)] = bug.signs(r.verdict)
		p.Sayf("planted bug %q: %d signs of it in %d calls", bug, found[string(bug)], r.Calls)
		if found[string(bug)] == 0 {
			return fmt.Errorf("the planted bug %q was not found in %d calls", bug, r.Calls)
		}
	}
	return nil
}

// result is that of a storm.
type result struct {
	lab.Arm
	verdict verdict
	details map[string]any
}

// client is a Deduper in one combination of order, isolation and exec mode.
type client struct {
	lab.Client
	name string
}

// storm is one storm at work.
type storm struct {
	db        *lab.Database
	bug       bug
	clients   []*client
	resetters [2]*dedup.Deduper // on the lab's own connections
	shortest  time.Duration

	calls, answers, replays       atomic.Int64
	resets, sweeps, swept, failed atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int
	first    error // the first error that no call may answer with
	panics   int
	cached   map[string]told // of bug answersFromCache
}

// raise raises a storm. With a bug it ends with the first sign of it.
func raise(ctx context.Context, l *lab.Lab, p lab.Params, b bug) (r result, err error) {
	db, err := l.CreateBehind(ctx, p.Seed, nil)
	if err != nil {
		return r, err
	}
	defer func() { _ = db.Drop(ctx) }()
	if _, err := db.Pool.Exec(ctx, schema); err != nil {
		return r, err
	}
	lab.ArmAnywhere(db.Proxy, p.Seed, 10)
	s := &storm{db: db, bug: b, outcomes: map[string]int{}, cached: map[string]told{}}
	closeAll, err := s.join(ctx, db.Proxy.URL())
	defer closeAll()
	if err != nil {
		return r, err
	}
	ending, end := context.WithCancel(ctx)
	var around sync.WaitGroup
	defer around.Wait()
	defer end()
	terminated := lab.Terminate(ending, &around, db, terminations, p.Seed)
	around.Go(func() { s.sweep(ending, p.Seed) })

	started := time.Now()
	for round := 0; !s.over(p, started, round) && (b == none || b.signs(r.verdict) == 0); round++ {
		v, err := s.round(ctx, p, round)
		if err != nil {
			return r, err
		}
		r.verdict.add(v)
		r.Calls, r.Tally = int(s.calls.Load()), r.verdict.Tally
		r.Fault("ended backend", int(terminated.Swap(0)))
		db.TakeFaults(&r.Arm)
		if b == none {
			for _, line := range v.Said[:min(len(v.Said), saidMost)] {
				p.Sayf("round %d: %s", round, line)
			}
			p.Sayf("round %d: %d calls, %d answers, %d replays, %d resets: %v (%d stale), %d panics", round, r.Calls, s.answers.Load(),
				s.replays.Load(), s.resets.Load(), r.Tally, r.verdict.Stale, s.panics)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.details = map[string]any{
		"answers": s.answers.Load(), "replays": s.replays.Load(), "resets": s.resets.Load(), "sweeps": s.sweeps.Load(), "swept": s.swept.Load(), "failed_sweeps": s.failed.Load(),
		"stale": r.verdict.Stale, "again_after_reset": r.verdict.AfterReset, "panics": s.panics, "outcomes": maps.Clone(s.outcomes), "shortest_retention_ms": s.shortest.Seconds() * 1000, "wrong": r.verdict.Said,
	}
	return r, s.first
}

// over reports whether there is no further round.
func (s *storm) over(p lab.Params, started time.Time, round int) bool {
	switch {
	case s.bug != none:
		return round >= plantedRounds
	case p.Calls > 0:
		return int(s.calls.Load()) >= p.Calls && s.raged()
	case p.Short:
		return round >= shortRounds && s.raged()
	}
	return time.Since(started) >= longForm && s.raged()
}

// raged reports whether it was a storm: whether records were answered with, reset and swept.
func (s *storm) raged() bool {
	return s.replays.Load() > 0 && s.resets.Load() > 0 && s.swept.Load() > 0
}

// join makes a client of each combination. Every second one is connected through the
// proxy, which breaks connections at COMMIT above all.
func (s *storm) join(ctx context.Context, proxied string) (closeAll func(), err error) {
	var pools []*pgxpool.Pool
	closeAll = func() {
		for _, pool := range pools {
			pool.Close()
		}
	}
	for i, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		if s.resetters[i], err = dedup.New(s.db.Pool, &dedup.Options{Order: order}); err != nil {
			return closeAll, err
		}
	}
	for m, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		var pair [2]*pgxpool.Pool
		for i, url := range []string{s.db.URL, proxied} {
			pool, err := lab.OpenPool(ctx, url, conns, mode)
			if err != nil {
				return closeAll, err
			}
			pair[i], pools = pool, append(pools, pool)
		}
		for i, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
			for j, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
				d, err := dedup.New(pair[(m+i+j)%2], &dedup.Options{
					Order: order, Isolation: level, CommitTimeout: commitWait,
					Retry: lab.Retry(30 * time.Millisecond),
				})
				if err != nil {
					return closeAll, err
				}
				name := fmt.Sprintf("%s, %s, %s:", []string{"lock first", "claim first"}[i], level, mode)
				s.clients = append(s.clients, &client{lab.Client{Pool: d.Pool(), D: d}, name})
			}
		}
	}
	s.shortest, err = shortestRetention(ctx, s.clients[0].D)
	return closeAll, err
}

// shortestRetention returns the shortest of the retentions that a call takes, by
// doubling from 1 ms. It calls nothing: its context has ended.
func shortestRetention(ctx context.Context, d *dedup.Deduper) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for r := time.Millisecond; r < time.Hour; r *= 2 {
		call := dedup.Call{Scope: "chaos", Tool: "none", Key: "none", Retention: dedup.Retention{Result: r, Tombstone: -1}}
		_, err := dedup.Do(ctx, d, call, func(context.Context, pgx.Tx) (int, error) { return 0, errEffect })
		var invalid *dedup.InvalidError
		if !errors.As(err, &invalid) {
			return r, nil
		}
	}
	return 0, errors.New("no retention of less than an hour is taken")
}

// round has the callers make the calls of a round, and judges it when everything is
// over.
func (s *storm) round(ctx context.Context, p lab.Params, round int) (v verdict, err error) {
	b := newBooks()
	limit := s.calls.Load() + roundCalls
	if p.Short || s.bug != none {
		limit = s.calls.Load() + shortCalls
	}
	resetting, end := context.WithCancel(ctx)
	defer end()
	var resets, calling sync.WaitGroup
	resets.Go(func() { s.reset(resetting, b, p.Seed, round) })
	house := s.clients[rand.New(rand.NewPCG(p.Seed, uint64(round))).IntN(len(s.clients))]
	for i := range callers {
		rng := rand.New(rand.NewPCG(p.Seed, uint64(round)<<8|uint64(i+1)))
		calling.Go(func() {
			for s.calls.Load() < limit && ctx.Err() == nil {
				s.makeOrPlant(ctx, s.draw(rng, house, round), b)
			}
		})
	}
	calling.Wait()
	end()
	resets.Wait()
	if err := ctx.Err(); err != nil {
		return v, err
	}
	unanswered := s.last(ctx, b, round)
	if err := quiet(ctx, s.db); err != nil {
		return v, err
	}
	if err := b.read(ctx, s.db); err != nil {
		return v, err
	}
	v = b.judge()
	v.Unanswered = unanswered
	_, err = s.db.Pool.Exec(ctx, `TRUNCATE ledger, lives`)
	return v, err
}

// last frees every key of the round and calls it once more, without faults. It
// counts the keys that get no answer.
func (s *storm) last(ctx context.Context, b *books, round int) (unanswered int) {
	for key := range keys {
		d := &draw{name: "Do at last", way: lab.Ways[0], by: &client{Client: lab.Client{Pool: s.db.Pool, D: s.resetters[key%2]}}, limit: lab.Patience, keys: []string{fmt.Sprintf("%d-%d", round, key)}, calls: []int64{s.calls.Add(1)}}
		d.call = dedup.Call{Scope: "chaos", Tool: "effect"}
		ctx, cancel := context.WithTimeout(ctx, lab.Patience)
		err := s.resetOne(ctx, b, s.resetters[key%2], d.keys[0])
		for errors.Is(err, dedup.ErrInFlight) && lab.Pause(ctx, longestPause) { // of a connection that is about to end
			err = s.resetOne(ctx, b, s.resetters[key%2], d.keys[0])
		}
		if err == nil {
			s.make(ctx, d, b)
		}
		cancel()
		b.mu.Lock()
		if n := len(b.answers); n == 0 || b.answers[n-1].call != d.calls[0] {
			unanswered++
		}
		b.mu.Unlock()
	}
	return unanswered
}

// reset resets keys of the round, one after the other.
func (s *storm) reset(ctx context.Context, b *books, seed uint64, round int) {
	rng := rand.New(rand.NewPCG(seed, uint64(round)<<8|0xff))
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(longestPause)))) {
		err := s.resetOne(ctx, b, s.resetters[rng.IntN(2)], fmt.Sprintf("%d-%d", round, rng.IntN(keys)))
		if err != nil && !errors.Is(err, dedup.ErrInFlight) && ctx.Err() == nil {
			s.unexpected(fmt.Errorf("resetting: %w", err))
		}
	}
}

func (s *storm) resetOne(ctx context.Context, b *books, d *dedup.Deduper, key string) error {
	// It is not cancelled with the round: a Reset that has deleted says so.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
	defer cancel()
	freed, err := d.Reset(ctx, "chaos", "effect", key, dedup.ResetOptions{Reason: "chaos"})
	if err != nil || !freed {
		return err
	}
	done, err := now(ctx, s.db)
	if err != nil {
		return err
	}
	s.resets.Add(1)
	b.reset(key, done)
	return nil
}

// sweep sweeps in turn from all clients.
func (s *storm) sweep(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(longestPause)))) {
		d := s.clients[rng.IntN(len(s.clients))].D
		limited, cancel := context.WithTimeout(ctx, patience)
		swept, err := d.Sweep(limited, &dedup.SweepOptions{Rest: -1})
		if s.bug == sweepsTooEarly {
			_, _ = d.Pool().Exec(limited, `DELETE FROM tool_dedup WHERE forget_at < now() + interval '1 hour'`)
		}
		cancel()
		s.sweeps.Add(1)
		s.swept.Add(swept.Expired + swept.Forgotten)
		if err != nil {
			s.failed.Add(1)
		}
	}
}

// longestPause is between two sweeps, and between two Resets.
const longestPause = 12 * time.Millisecond
