// Package matrix is the campaign that makes calls in every combination of what
// can be chosen: the version of PostgreSQL, directly or through PgBouncer, the
// isolation level, lock or claim, and pgx's exec mode.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	// keys are called in each cell, each by so many twins from two pools.
	keys, twins = 20, 4
	conns       = 3
	// shortShare is one over the share of the combinations that the short form
	// tries; the seed says which.
	shortShare = 4
	// tries is how often a caller without an answer calls again.
	tries      = 60
	commitWait = 250 * time.Millisecond
)

var (
	levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
	orders = []dedup.Order{dedup.LockFirst, dedup.ClaimFirst}
)

// Run runs the campaign on the lab's server, or on those of Params.BinDirs.
func Run(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "matrix", Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}, Details: map[string]any{}}
	m := &matrix{score: s, params: p}
	if len(p.BinDirs) == 0 {
		err := m.server(ctx, l)
		return s, errors.Join(err, m.finish())
	}
	s.Server = ""
	for _, dir := range p.BinDirs {
		other, err := lab.Open(ctx, &pgserver.Options{BinDir: dir})
		if err != nil {
			return s, fmt.Errorf("the server in %s: %w", dir, err)
		}
		if s.Server != "" {
			s.Server += " "
		}
		s.Server += other.Version
		err = m.server(ctx, other)
		if closed := other.Close(ctx); err == nil {
			err = closed
		}
		if err != nil {
			return s, fmt.Errorf("PostgreSQL %s: %w", other.Version, err)
		}
	}
	return s, m.finish()
}

// matrix is what was tried.
type matrix struct {
	score  *score.Score
	params lab.Params

	cells, held int
	refused     int // cells that a pooler cannot serve and that said so
	failures    []error
}

func (m *matrix) finish() error {
	m.score.Details["cells"], m.score.Details["held"], m.score.Details["refused_by_the_pooler"] = m.cells, m.held, m.refused
	if m.cells != m.held+m.refused {
		m.failures = append(m.failures, fmt.Errorf("%d of %d combinations held", m.held, m.cells-m.refused))
	}
	return errors.Join(m.failures...)
}

// server tries everything on one server.
func (m *matrix) server(ctx context.Context, l *lab.Lab) error {
	if err := m.path(ctx, l, "direct", nil); err != nil {
		return err
	}
	bouncer, err := pgbouncer.Start(ctx, l.Server.URL)
	if errors.Is(err, pgbouncer.ErrAbsent) {
		m.score.Details["pooler"] = "not tried: " + err.Error()
		m.params.Sayf("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	err = m.path(ctx, l, "PgBouncer", bouncer)
	return errors.Join(err, bouncer.Stop())
}

// path tries everything on one way to a server.
func (m *matrix) path(ctx context.Context, l *lab.Lab, path string, bouncer *pgbouncer.Bouncer) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	url := db.URL
	if bouncer != nil {
		if url, err = bouncer.URL(db.URL); err != nil {
			return err
		}
	}
	proxy, err := faultproxy.New(url)
	if err != nil {
		return err
	}
	defer proxy.Close()
	lab.ArmCommits(proxy, m.params.Seed)
	held, refused, cells := m.held, m.refused, m.cells
	n := 0
	for _, level := range levels {
		for _, order := range orders {
			for _, mode := range lab.Modes {
				if n++; m.params.Short && (n+int(m.params.Seed%shortShare))%shortShare != 0 {
					continue
				}
				m.cell(ctx, db, proxy, cell{m.cells, level, order, mode, bouncer != nil})
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	if bouncer == nil && m.score.ControlCalls == 0 {
		m.control(ctx, db, proxy)
	}
	m.params.Sayf("PostgreSQL %s, %s: %d combinations, %d held, %d refused by the pooler", l.Version, path, m.cells-cells, m.held-held, m.refused-refused)
	return nil
}

// cell is one combination.
type cell struct {
	n      int
	level  pgx.TxIsoLevel
	order  dedup.Order
	mode   pgx.QueryExecMode
	pooled bool
}

func (c cell) String() string {
	return fmt.Sprintf("%s, %s, %s, pooled %t", c.level, c.order, c.mode, c.pooled)
}

// cell makes the calls of one combination.
func (m *matrix) cell(ctx context.Context, db *lab.Database, proxy *faultproxy.Proxy, c cell) {
	m.cells++
	calls, err := m.calls(ctx, db, proxy.URL(), c, func(pool *pgxpool.Pool) (caller, error) {
		d, err := dedup.New(pool, &dedup.Options{
			Isolation: c.level, Order: c.order, CommitTimeout: commitWait,
			Retry: dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond},
		})
		return func(ctx context.Context, n int, key string) (int64, error) {
			call := dedup.Call{Scope: "chaos", Tool: "effect", Key: key, Args: key}
			if n%3 == 0 {
				r, err := dedup.DoStatement[lab.Answer](ctx, d, call, dedup.SQL(lab.Effect, key))
				return r.Value.Run, err
			}
			r, err := dedup.Do(ctx, d, call, lab.RunRow(key))
			return r.Value.Run, err
		}, err
	})
	faults := 0
	for kind, n := range proxy.Snapshot().Faults {
		m.score.FaultsByKind[string(kind)] += n
		faults += n
	}
	proxy.Reset()
	m.score.Calls += calls.made
	m.score.Faults += faults
	if err == nil && c.pooled && isPoolerRefusal(calls.last) {
		m.refused++ // and what was answered is right
		m.score.Details["refusal"] = calls.last.Error()
		calls.tally.Unanswered = 0
		m.score.Add(calls.tally)
		if calls.tally.Wrong() {
			m.failures = append(m.failures, fmt.Errorf("%s: %+v", c, calls.tally))
		}
		return
	}
	if err = errors.Join(calls.last, err); err == nil && !calls.tally.Wrong() {
		m.held++
	} else {
		m.failures = append(m.failures, fmt.Errorf("%s: %+v: %w", c, calls.tally, err))
	}
	m.score.Add(calls.tally)
}

// isPoolerRefusal reports whether an error says that a pooler does not keep track
// of prepared statements, as PgBouncer before 1.21 does not.
func isPoolerRefusal(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "42P05" || server.Code == "26000")
}

// control makes the same calls without dedup. That some of them get no answer
// before the machine is less busy is no failure: the control is what goes wrong.
func (m *matrix) control(ctx context.Context, db *lab.Database, proxy *faultproxy.Proxy) {
	calls, err := m.calls(ctx, db, proxy.URL(), cell{n: -1, mode: pgx.QueryExecModeCacheStatement}, func(pool *pgxpool.Pool) (caller, error) {
		return func(ctx context.Context, _ int, key string) (int64, error) {
			return lab.RunNaivelyWithin(ctx, pool, commitWait, key)
		}, nil
	})
	for _, n := range proxy.Snapshot().Faults {
		m.score.ControlFaults += n
	}
	proxy.Reset()
	m.score.ControlCalls, m.score.Control = calls.made, calls.tally
	if err != nil {
		m.failures = append(m.failures, fmt.Errorf("control: %w", err))
	}
}

type caller func(ctx context.Context, n int, key string) (int64, error)

type made struct {
	made  int
	tally score.Tally
	last  error // of a call that got no answer in the end
}

// calls makes the calls of one combination and settles its books.
func (m *matrix) calls(ctx context.Context, db *lab.Database, url string, c cell, wrap func(*pgxpool.Pool) (caller, error)) (calls made, err error) {
	var callers []caller
	for range 2 {
		pool, err := lab.OpenPool(ctx, url, conns, c.mode)
		if err != nil {
			return calls, err
		}
		defer pool.Close()
		call, err := wrap(pool)
		if err != nil {
			return calls, err
		}
		callers = append(callers, call)
	}
	ledger := lab.NewLedger()
	var mu sync.Mutex
	unanswered := 0
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2*conns)
	for _, i := range rand.New(rand.NewPCG(m.params.Seed, uint64(c.n+1))).Perm(keys * twins) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := fmt.Sprintf("%d-%d", c.n, i%keys)
			err := deliver(ctx, callers[i/keys%2], i, key, ledger, c.pooled)
			mu.Lock()
			defer mu.Unlock()
			calls.made++
			if err != nil {
				unanswered++
				calls.last = err
			}
		})
	}
	wg.Wait()
	if unanswered == keys*twins {
		return calls, nil // there is nothing to settle
	}
	calls.tally, err = ledger.Settle(ctx, db.Pool)
	return calls, err
}

// deliver calls until there is an answer. What a pooler refuses once it refuses
// always.
func deliver(ctx context.Context, call caller, n int, key string, ledger *lab.Ledger, pooled bool) (err error) {
	limit := tries
	if pooled {
		limit = tries / 3
	}
	for range limit {
		var run int64
		if run, err = call(ctx, n, key); err == nil {
			ledger.Answered(key, run)
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	ledger.Unanswered(key)
	return err
}
