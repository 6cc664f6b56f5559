package outside

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// Work calls the operations that in names until it ends, and recovers what is due. It is
// what a worker process does until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	var h hello
	if !lines.Scan() {
		return fmt.Errorf("reading the first line: %w", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	a := armOf(h.Arm)
	if a == nil {
		return fmt.Errorf("there is no arm %q", h.Arm)
	}
	pool, err := lab.OpenPool(ctx, h.URL, int32(h.Conns), pgx.QueryExecModeCacheStatement)
	if err != nil {
		return err
	}
	defer pool.Close()
	p := &caller{hello: h, arm: a, pool: pool, steps: newSteps(h, out), provider: newClient(h.Provider)}
	if err := p.open(); err != nil {
		return err
	}
	recovering, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { _ = p.tools.Recover(recovering) }) // an error is that it is closed
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			end()
			return fmt.Errorf("reading a line: %w", err)
		}
		if o.Go > 0 {
			p.steps.goOn(o.Go)
			continue
		}
		work.Go(func() { p.call(ctx, o) })
	}
	end()
	work.Wait()
	closing, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	return p.tools.Close(closing)
}

// caller is a worker process, from within.
type caller struct {
	hello
	arm      *arm
	pool     *pgxpool.Pool
	steps    *steps
	provider *client
	d        *dedup.Deduper
	tools    *external.Tools
	handles  map[string]*external.Handle[Charge, Charged]
}

func (p *caller) open() (err error) {
	if p.d, err = dedup.New(p.pool, &dedup.Options{Tracer: p.steps}); err != nil {
		return err
	}
	if p.tools, err = external.New(p.d, &external.Options{Lease: p.Lease}); err != nil {
		return err
	}
	p.handles = map[string]*external.Handle[Charge, Charged]{}
	for _, name := range p.arm.tools() {
		if p.handles[name], err = external.Add(p.tools, p.tool(name)); err != nil {
			return err
		}
	}
	return nil
}

// call makes a call and reports what its caller was told. Each try waits longer than the one before.
func (p *caller) call(ctx context.Context, o order) {
	ctx, cancel := context.WithTimeout(ctx, leases(patience*float64(o.Try+1), p.Lease))
	defer cancel()
	op := o.Op
	var id string
	var err error
	switch {
	case p.arm.control == leaseThenAgain:
		id, err = p.lease(ctx, op)
	case p.arm.saga:
		err = p.saga(ctx, op)
	default:
		id, err = p.outside(ctx, p.arm.name, op)
	}
	p.steps.at("returned")
	r := report{Op: op, ID: id, Outcome: outcomeOf(err)}
	if r.Outcome == unnamed && (p.arm.saga || p.arm.control == leaseThenAgain) { // these have no names
		r.Outcome = unsettled
	}
	if err != nil {
		r.Error = err.Error()
	}
	p.steps.report(r)
}

func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return happened
	case errors.As(err, new(*external.UndoneError)):
		return undone
	case errors.Is(err, dedup.ErrRefused):
		return refused
	case errors.As(err, new(*external.ParkedError)):
		return parked
	}
	if dedup.IsRetryable(err) {
		return unsettled
	}
	return unnamed
}

func callOf(op int) dedup.Call { return dedup.Call{Scope: scope, Key: fmt.Sprint(op)} }

const scope = "chaos"

// outside makes a call. Now and then its intent is accepted in a transaction before.
func (p *caller) outside(ctx context.Context, tool string, op int) (string, error) {
	if op%acceptEvery == 0 {
		_ = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error { // without it, Do claims
			_, err := p.handles[tool].Accept(ctx, tx, callOf(op), Charge{op})
			p.steps.at("accepted")
			return err
		})
	}
	r, err := p.handles[tool].Do(ctx, callOf(op), Charge{op})
	return r.Value.ID, err
}

// acceptEvery is which operations are accepted before they are called.
const acceptEvery = 4
