package history

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	conns = 12 // of a pool: pgx keeps the place of a broken one for a while
	// cuts are how many of a thousand units that carry no COMMIT meet a cut.
	cuts = 10
)

var (
	orders = []dedup.Order{dedup.LockFirst, dedup.ClaimFirst}
	levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	modes  = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
)

// storm is callers and faults at work on one database.
type storm struct {
	scene
	db      *lab.Database
	seed    uint64
	ways    []lab.Way
	clients []*lab.Client    // one of each combination of order, isolation and exec mode
	freers  []*dedup.Deduper // of each order, on the lab's own connections: they reset

	made, tries atomic.Int64 // calls that were drawn, and what the callers made of them
	swept       atomic.Int64
	terminated  atomic.Int64 // backends
	cache       sync.Map     // of the bug answersFromCache
}

// raise raises a storm. With a bug it ends with the first sign of it.
func (sc scene) raise(ctx context.Context, l *lab.Lab, p lab.Params, b *bug) (a lab.Arm, v verdict, err error) {
	v.outcomes = map[string]int{}
	a, err = l.Try(ctx, p, lab.ByDo, func(ctx context.Context, t *lab.Trial) error { return sc.storm(ctx, t, b, &v) })
	return a, v, err
}

func (sc scene) storm(ctx context.Context, t *lab.Trial, b *bug, v *verdict) error {
	p := t.Params
	if err := t.Break(p.Seed, nil); err != nil {
		return err
	}
	if _, err := t.Pool.Exec(ctx, schema); err != nil {
		return err
	}
	lab.ArmAnywhere(t.Proxy, p.Seed, cuts)
	s := &storm{scene: sc, db: t.Database, seed: p.Seed, ways: slices.Clone(lab.Ways)}
	if p.Short || b != nil {
		s.roundCalls = shortRound
	}
	if b != nil {
		b.plant(s)
	}
	if err := s.join(ctx); err != nil {
		return err
	}
	ending, end := context.WithCancel(ctx)
	var around sync.WaitGroup
	defer around.Wait()
	defer end()
	around.Go(func() { s.terminate(ending) })
	if !s.lasting {
		around.Go(func() { s.sweep(ending) })
	}
	for started, n := time.Now(), 0; !s.over(p, b, *v, started); n++ {
		if err := s.rage(ctx, n, v); err != nil {
			return err
		}
		t.Calls, t.Tally = int(s.made.Load()), v.Tally
		t.Fault("ended backend", int(s.terminated.Swap(0)))
		t.TakeFaults(&t.Arm)
		if b == nil {
			p.Sayf("%d calls, %d faults, %d replays, %d resets, %d swept: %v", t.Calls, t.AllFaults(), v.replays, v.resets, s.swept.Load(), v.Tally)
		}
	}
	return nil
}

// over reports whether there is no further round. A storm without a bug goes on until records were
// answered with and, unless they last, reset and swept.
func (s *storm) over(p lab.Params, b *bug, v verdict, started time.Time) bool {
	calls := int(s.made.Load())
	switch {
	case b != nil:
		return b.sign(v) > 0 || calls >= plantedCalls
	case v.replays == 0 || !s.lasting && (v.resets == 0 || s.swept.Load() == 0):
		return false
	case p.Calls > 0:
		return calls >= p.Calls
	case p.Short:
		return calls >= shortCalls
	}
	return time.Since(started) >= longForm
}

// join makes the clients, behind a proxy that breaks connections at COMMIT above all.
func (s *storm) join(ctx context.Context) error {
	for _, order := range orders {
		freer, err := dedup.New(s.db.Pool, &dedup.Options{Order: order})
		if err != nil {
			return err
		}
		s.freers = append(s.freers, freer)
		for _, mode := range modes {
			of := func(level pgx.TxIsoLevel) *dedup.Options {
				return &dedup.Options{Order: order, Isolation: level, CommitTimeout: lab.AnswerWait, Retry: lab.Retry(30 * time.Millisecond)}
			}
			first, err := s.db.Client(ctx, conns, mode, of(levels[0]))
			if err != nil {
				return err
			}
			s.clients = append(s.clients, first)
			for _, level := range levels[1:] {
				c, err := lab.NewClient(first.Pool, of(level))
				if err != nil {
					return err
				}
				s.clients = append(s.clients, c)
			}
		}
	}
	return nil
}

// terminate ends a connection of a client now and then.
func (s *storm) terminate(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.seed, 4))
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(s.endings)))) {
		if ended, err := lab.TerminateAny(ctx, s.db.Pool); err == nil && ended {
			s.terminated.Add(1)
		}
	}
}

// sweep sweeps in turn from all clients. It may fail as calls do.
func (s *storm) sweep(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(longestPause)))) {
		limited, cancel := context.WithTimeout(ctx, patience)
		swept, _ := s.clients[rng.IntN(len(s.clients))].D.Sweep(limited, &dedup.SweepOptions{Rest: -1})
		cancel()
		s.swept.Add(swept.Expired + swept.Forgotten)
	}
}
