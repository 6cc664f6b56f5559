// Package matrix is the campaign that makes calls in every combination of what
// can be chosen: the version of PostgreSQL, directly or through PgBouncer, the
// isolation level, lock or claim, and pgx's exec mode.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgbouncer"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// keys are called in each cell, each by so many twins from two pools.
	keys, twins = 20, 4
	conns       = 3
	// shortShare is one over the share of the combinations that the short form
	// tries; the seed says which.
	shortShare = 4
	// refusals are the tries of a call after which a pooler that refuses them is believed.
	refusals   = 20
	commitWait = 250 * time.Millisecond
)

// Run runs the campaign on the lab's server, or on those of Params.BinDirs.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	m := &matrix{score: s, params: p}
	if len(p.BinDirs) == 0 {
		return errors.Join(m.server(ctx, l), m.finish())
	}
	var versions []string
	for _, dir := range p.BinDirs {
		other, err := lab.Open(ctx, &pgserver.Options{BinDir: dir})
		if err != nil {
			return fmt.Errorf("the server in %s: %w", dir, err)
		}
		versions = append(versions, other.Version)
		err = m.server(ctx, other)
		if err = errors.Join(err, other.Close(ctx)); err != nil {
			return fmt.Errorf("PostgreSQL %s: %w", other.Version, err)
		}
	}
	s.Server = strings.Join(versions, " ")
	return m.finish()
}

// matrix is what was tried.
type matrix struct {
	score  *lab.Score
	params lab.Params

	cells    int
	refused  int // cells that a pooler cannot serve and that said so
	failures []error
}

func (m *matrix) finish() error {
	held := m.cells - m.refused - len(m.failures)
	m.score.Details["cells"], m.score.Details["held"], m.score.Details["refused_by_the_pooler"] = m.cells, held, m.refused
	return errors.Join(m.failures...)
}

// server tries everything on one server, and the control without dedup once.
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
	return errors.Join(m.path(ctx, l, "PgBouncer", bouncer.URL), bouncer.Stop())
}

// path tries everything on one way to a server.
func (m *matrix) path(ctx context.Context, l *lab.Lab, path string, through func(string) (string, error)) error {
	db, err := l.CreateBehind(ctx, m.params.Seed, through)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()
	n := 0
	{
		{
			for _, mode := range lab.Modes {
				if n++; m.params.Short && (n+int(m.params.Seed%shortShare))%shortShare != 0 {
					continue
				}
				m.cell(ctx, db, cell{m.cells, mode, through != nil})
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	m.params.Sayf("PostgreSQL %s, %s: %d combinations so far, %d refused by the pooler, %d failed", l.Version, path, m.cells, m.refused, len(m.failures))
	if m.score.ControlCalls > 0 {
		return nil
	}
	// That some calls get no answer before the machine is less busy is no failure: the control is what
	// goes wrong.
	a, _, err := cell{n: -1, mode: lab.Modes[0]}.run(ctx, db, m.params.Seed, func(int) lab.Caller { return lab.Naively })
	m.score.EnterControl(a)
	return err
}

// cell is one combination.
type cell struct {
	n      int
	mode   pgx.QueryExecMode
	pooled bool
}

func (c cell) String() string {
	return fmt.Sprintf("%s, pooled %t", c.mode, c.pooled)
}

// cell makes the calls of one combination, every third by DoStatement.
func (m *matrix) cell(ctx context.Context, db *lab.Database, c cell) {
	m.cells++
	a, last, err := c.run(ctx, db, m.params.Seed, func(n int) lab.Caller {
		if n%3 == 0 {
			return lab.By(lab.Ways[2])
		}
		return lab.Do
	})
	refused := err == nil && c.pooled && isPoolerRefusal(last)
	if refused { // and what was answered is right
		m.score.Details["refusal"] = last.Error()
		a.Unanswered, last = 0, nil
	}
	m.score.Enter(a)
	switch err = errors.Join(last, err); {
	case err != nil || a.Wrong():
		m.failures = append(m.failures, fmt.Errorf("%s: %+v: %w", c, a.Tally, err))
	case refused:
		m.refused++
	}
}

// isPoolerRefusal reports whether an error says that a pooler does not keep track
// of prepared statements, as PgBouncer before 1.21 does not.
func isPoolerRefusal(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "42P05" || server.Code == "26000")
}

// believing is call until a pooler has refused it so often that it always will.
func (c cell) believing(call lab.Caller) lab.Caller {
	refused := 0
	return func(ctx context.Context, client *lab.Client, key string) (int64, error) {
		run, err := call(ctx, client, key)
		if c.pooled && isPoolerRefusal(err) {
			if refused++; refused == refusals {
				err = lab.Hopeless{Err: err}
			}
		}
		return run, err
	}
}

// run makes the calls of one combination and settles its books. last is the error of a call that got no
// answer in the end.
func (c cell) run(ctx context.Context, db *lab.Database, seed uint64, by func(int) lab.Caller) (a lab.Arm, last, err error) {
	var clients [2]*lab.Client
	for i := range clients {
		clients[i], err = lab.OpenClient(ctx, db.Proxy.URL(), conns, c.mode, &dedup.Options{
			CommitTimeout: commitWait, Retry: lab.Retry(20 * time.Millisecond),
		})
		if err != nil {
			return a, nil, err
		}
		defer clients[i].Pool.Close()
	}
	ledger := lab.NewLedger()
	var mu sync.Mutex
	answered := 0
	lab.Crowd(2*conns, func(yield func(func()) bool) {
		for _, i := range rand.New(rand.NewPCG(seed, uint64(c.n+1))).Perm(keys * twins) {
			yield(func() {
				err := ledger.Deliver(ctx, clients[i/keys%2], c.believing(by(i)), fmt.Sprintf("%d-%d", c.n, i%keys))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					last = err
				} else {
					answered++
				}
			})
		}
	})
	a.Calls = keys * twins
	db.TakeFaults(&a)
	if answered > 0 { // else there is nothing to settle
		a.Tally, err = ledger.Settle(ctx, db.Pool)
	}
	return a, last, err
}
