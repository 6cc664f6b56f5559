// Package everybyte is the campaign that cuts the connection behind every byte
// of a whole call, in each direction, in each exec mode, for every way to call.
package everybyte

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

const (
	// atOnce is how many cells are tried at once.
	atOnce = 3
	// tries is how often a caller without an answer calls again.
	tries = 20
	// stride is the distance of the bytes that the short form cuts behind.
	stride = 127
)

// Run runs the campaign. Params.Calls does not matter: there are as many calls
// as bytes.
func Run(ctx context.Context, l *lab.Lab, p lab.Params) (*score.Score, error) {
	s := &score.Score{Campaign: "every-byte", Seed: p.Seed, Server: l.Version, FaultsByKind: map[string]int{}, Details: map[string]any{}}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	start := func(w way, mode pgx.QueryExecMode) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c, err := tryCell(ctx, l, p, w, mode)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, %s: %w", w.name, mode, err))
			}
			c.addTo(s, w)
			p.Sayf("%s, %s: %d calls, %d cuts of %d bytes to the server and %d to the client: %d duplicates, %d lost, %d differing, %d recovered",
				w.name, mode, c.calls, c.cuts, c.toServer, c.toClient, c.tally.Duplicates, c.tally.Lost, c.tally.Differing, c.recovered)
		})
	}
	for _, mode := range lab.Modes {
		for _, w := range ways {
			start(w, mode)
		}
	}
	start(naive, lab.Modes[0])
	wg.Wait()
	return s, errors.Join(errs...)
}

// cell is one way in one mode.
type cell struct {
	calls, cuts        int
	toServer, toClient int64 // bytes of an undisturbed call
	recovered          int   // calls whose answer to COMMIT was lost
	tally              score.Tally
}

func (c *cell) addTo(s *score.Score, w way) {
	if !w.dedup {
		s.ControlCalls, s.ControlFaults, s.Control = c.calls, c.cuts, c.tally
		return
	}
	s.Calls += c.calls
	s.Faults += c.cuts
	s.FaultsByKind["cut"] += c.cuts
	s.Add(c.tally)
	recovered, _ := s.Details["recovered"].(int)
	s.Details["recovered"] = recovered + c.recovered
}

// tryCell cuts every call of one way in one mode.
func tryCell(ctx context.Context, l *lab.Lab, p lab.Params, w way, mode pgx.QueryExecMode) (c *cell, err error) {
	c = &cell{}
	db, err := l.Create(ctx)
	if err != nil {
		return c, err
	}
	defer func() { _ = db.Drop(ctx) }()
	proxy, err := faultproxy.New(db.URL)
	if err != nil {
		return c, err
	}
	defer proxy.Close()
	pool, err := lab.OpenPool(ctx, proxy.URL(), 1, mode)
	if err != nil {
		return c, err
	}
	defer pool.Close()
	d, err := dedup.New(pool, options())
	if err != nil {
		return c, err
	}
	t := &trial{cell: c, way: w, pool: pool, d: d, db: db, ledger: lab.NewLedger()}
	for i := range 3 { // statements are prepared and plans are cached by then
		proxy.Reset()
		if err := t.call(ctx, fmt.Sprintf("warm-%d", i)); err != nil {
			return c, err
		}
	}
	seen := proxy.Snapshot()
	c.toServer, c.toClient = seen.BytesToServer, seen.BytesToClient

	step, first := int64(1), int64(0)
	if p.Short && w.dedup {
		step, first = stride, int64(p.Seed%stride)
	}
	for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		length := c.toServer
		if direction == faultproxy.ToClient {
			length = c.toClient
		}
		for k := first; k < length; k += step {
			cut := proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: k})
			if err := t.call(ctx, fmt.Sprintf("%d-%d", direction, k)); err != nil {
				return c, err
			}
			cut.Disarm()
			c.cuts += cut.Count()
			// The next call begins on a connection that has prepared everything.
			if err := t.call(ctx, fmt.Sprintf("%d-%d-after", direction, k)); err != nil {
				return c, err
			}
		}
	}
	c.tally, err = t.ledger.Settle(ctx, db.Pool)
	c.tally.Differing += t.misjudged
	return c, err
}

// trial makes the calls of a cell.
type trial struct {
	*cell
	way    way
	pool   *pgxpool.Pool
	d      *dedup.Deduper
	db     *lab.Database
	ledger *lab.Ledger
	// misjudged counts answers that say of themselves what is not so.
	misjudged int
}

// call makes the calls of a prefix until they have answers.
func (t *trial) call(ctx context.Context, prefix string) error {
	var last error
	for range tries {
		answers, err := t.way.make(ctx, t.pool, t.d, prefix)
		t.calls++
		if err == nil {
			return t.note(ctx, answers)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		last = err
	}
	t.ledger.Unanswered(prefix)
	return fmt.Errorf("no answer after %d tries: %w", tries, last)
}

// note notes answers, and judges what they say of themselves: nobody else
// calls, so that what is replayed is the call's own effect whose COMMIT was
// answered to nobody, and what is not replayed was the last effect to run.
func (t *trial) note(ctx context.Context, answers []told) error {
	var last int64
	if err := t.db.Pool.QueryRow(ctx, `SELECT last_value FROM runs`).Scan(&last); err != nil {
		return fmt.Errorf("reading the runs: %w", err)
	}
	for _, a := range answers {
		t.ledger.Answered(a.key, a.run)
		if a.recovered {
			t.recovered++
		}
		if a.replayed != a.recovered || t.way.dedup && !a.replayed && a.run <= last-int64(len(answers)) {
			t.misjudged++
		}
	}
	return nil
}
