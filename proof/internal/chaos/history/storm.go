package history

import (
	"context"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	commitWait = 200 * time.Millisecond
	conns      = 12 // in a pool: pgx keeps a broken connection's place for a while
	// cuts is the number of units in a thousand without a COMMIT that are cut.
	cuts = 10
	// endingPause is the longest pause between two ended backends. On a slow machine a shorter
	// pause would end most connections before they reach a fault on COMMIT.
	endingPause = 250 * time.Millisecond
)

var (
	// engines are the values of the setting tool_dedup.engine: on PostgreSQL a call locks, on an
	// unknown engine it claims. Both share one table.
	engines = []string{"", "other"}
	levels  = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	modes   = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
)

// storm is the callers and the faults on one database.
type storm struct {
	scene
	db      *lab.Database
	seed    uint64
	ways    []lab.Way
	clients []*lab.Client    // one for each combination of engine, isolation and exec mode
	freers  []*dedup.Deduper // one for each engine, on the lab's own connections: they reset

	made, tries atomic.Int64 // drawn calls, and the callers' tries
	swept       atomic.Int64
	cache       sync.Map // of the bug answersFromCache
}

// raise runs a storm. With a bug it ends at the bug's first sign.
func (sc scene) raise(ctx context.Context, l *lab.Lab, p lab.Params, b *bug) (a lab.Arm, v verdict, err error) {
	v.outcomes = map[string]int{}
	db, err := l.CreateBehind(ctx, p.Seed)
	if err != nil {
		return a, v, err
	}
	defer func() { _ = db.Drop(ctx) }()
	if _, err := db.Pool.Exec(ctx, schema); err != nil {
		return a, v, err
	}
	lab.ArmAnywhere(db.Proxy, p.Seed, cuts)
	s := &storm{scene: sc, db: db, seed: p.Seed, ways: slices.Clone(lab.Ways)}
	if p.Short || b != nil {
		s.roundCalls = shortRound
	}
	if b != nil {
		b.plant(s)
	}
	closeAll, err := s.join(ctx)
	defer closeAll()
	if err != nil {
		return a, v, err
	}
	ending, end := context.WithCancel(ctx)
	var around sync.WaitGroup
	defer around.Wait()
	defer end()
	terminated := lab.Terminate(ending, &around, db, endingPause, p.Seed)
	if !s.lasting {
		around.Go(func() { s.sweep(ending) })
	}
	for started, n := time.Now(), 0; !s.over(p, b, v, started); n++ {
		if err := s.rage(ctx, n, &v); err != nil {
			return a, v, err
		}
		a.Calls, a.Tally = int(s.made.Load()), v.Tally
		a.Fault("ended backend", int(terminated.Swap(0)))
		db.TakeFaults(&a)
		if b == nil {
			p.Sayf("%d calls, %d faults, %d replays, %d resets, %d swept: %v", a.Calls, a.AllFaults(), v.replays, v.resets, s.swept.Load(), v.Tally)
		}
	}
	return a, v, nil
}

// over reports whether the storm is finished. Without a bug it goes on until a record was replayed
// and, unless records last, one was reset and one was swept.
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

// join makes the clients behind a proxy that breaks connections, most often at COMMIT.
func (s *storm) join(ctx context.Context) (closeAll func(), err error) {
	var pools []*pgxpool.Pool
	closeAll = func() {
		for _, pool := range pools {
			pool.Close() // in case several failed
		}
	}
	for _, engine := range engines {
		own, err := lab.OwnPool(ctx, withEngine(s.db.URL, engine))
		if err != nil {
			return closeAll, err
		}
		pools = append(pools, own)
		freer, err := dedup.New(own, nil)
		if err != nil {
			return closeAll, err
		}
		s.freers = append(s.freers, freer)
		for _, mode := range modes {
			pool, err := lab.OpenPool(ctx, withEngine(s.db.Proxy.URL(), engine), conns, mode)
			if err != nil {
				return closeAll, err
			}
			pools = append(pools, pool)
			for _, level := range levels {
				c, err := lab.NewClient(pool, &dedup.Options{Isolation: level, CommitTimeout: commitWait, Retry: lab.Retry(30 * time.Millisecond)})
				if err != nil {
					return closeAll, err
				}
				s.clients = append(s.clients, c)
			}
		}
	}
	return closeAll, nil
}

// withEngine returns the URL of connections whose server the library takes for an engine.
func withEngine(server, engine string) string {
	if engine == "" {
		return server
	}
	to, err := url.Parse(server)
	if err != nil {
		return server // pgx reports it
	}
	query := to.Query()
	query.Set("tool_dedup.engine", engine)
	to.RawQuery = query.Encode()
	return to.String()
}

// sweep sweeps from one client after the other. Like a call, it may fail.
func (s *storm) sweep(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(longestPause)))) {
		limited, cancel := context.WithTimeout(ctx, patience)
		swept, _ := s.clients[rng.IntN(len(s.clients))].D.Sweep(limited, &dedup.SweepOptions{Rest: -1})
		cancel()
		s.swept.Add(swept.Expired + swept.Forgotten)
	}
}
