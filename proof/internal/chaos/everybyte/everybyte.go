// Package everybyte is the campaign that cuts the connection behind every byte
// of a whole call, in each direction, in each exec mode, for every way to call.
package everybyte

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// atOnce is how many cells are tried at once.
	atOnce = 3
	// stride is the distance of the bytes that the short form cuts behind.
	stride = 127
	// many is how many calls a way makes that takes many.
	many = 3
)

// naive is the control arm: a transaction that is repeated after any error.
var naive = lab.Way{Name: "without dedup", Make: func(ctx context.Context, c *lab.Client, jobs []lab.Job) ([]lab.Told, error) {
	run, err := lab.Naively(ctx, c, jobs[0].Call.Key)
	return []lab.Told{{Run: run}}, err
}}

// Run runs the campaign. Params.Calls does not matter: there are as many calls
// as bytes.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	var mu sync.Mutex
	var errs []error
	recovered := 0
	lab.Crowd(atOnce, func(yield func(func()) bool) {
		start := func(w lab.Way, mode pgx.QueryExecMode, enter func(lab.Arm)) {
			yield(func() {
				c := &cell{way: w, mode: mode, dedup: w.Name != naive.Name, ledger: lab.NewLedger()}
				err := c.try(ctx, l, p)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, fmt.Errorf("%s, %s: %w", w.Name, mode, err))
				}
				enter(c.Arm)
				recovered += c.recovered
				p.Sayf("%s, %s: %d calls, %d cuts of %d bytes to the server and %d to the client: %v, %d recovered",
					w.Name, mode, c.Calls, c.AllFaults(), c.length[faultproxy.ToServer], c.length[faultproxy.ToClient], c.Tally, c.recovered)
			})
		}
		for _, mode := range lab.Modes {
			for _, w := range lab.Ways {
				start(w, mode, s.Enter)
			}
		}
		start(naive, lab.Modes[0], s.EnterControl)
	})
	s.Details["recovered"] = recovered
	return errors.Join(errs...)
}

// cell is one way in one mode.
type cell struct {
	lab.Arm
	way    lab.Way
	mode   pgx.QueryExecMode
	dedup  bool
	client *lab.Client
	db     *lab.Database
	ledger *lab.Ledger

	length    map[faultproxy.Direction]int64 // bytes of an undisturbed call
	recovered int                            // calls whose answer to COMMIT was lost
	// wrongFlags counts answers that say of themselves what is not so.
	wrongFlags int
}

// try cuts every call of the cell.
func (c *cell) try(ctx context.Context, l *lab.Lab, p lab.Params) (err error) {
	if c.db, err = l.Create(ctx); err != nil {
		return err
	}
	defer func() { _ = c.db.Drop(ctx) }()
	proxy, err := faultproxy.New(c.db.URL)
	if err != nil {
		return err
	}
	defer proxy.Close()
	if c.client, err = lab.OpenClient(ctx, proxy.URL(), 1, c.mode, &dedup.Options{Retry: lab.Retry(20 * time.Millisecond)}); err != nil {
		return err
	}
	defer c.client.Pool.Close()
	for i := range 3 { // statements are prepared and plans are cached by then
		proxy.Reset()
		if err := c.call(ctx, fmt.Sprintf("warm-%d", i)); err != nil {
			return err
		}
	}
	seen := proxy.Snapshot()
	c.length = map[faultproxy.Direction]int64{faultproxy.ToServer: seen.BytesToServer, faultproxy.ToClient: seen.BytesToClient}

	step, first := int64(1), int64(0)
	if p.Short && c.dedup {
		step, first = stride, int64(p.Seed%stride)
	}
	for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		for k := first; k < c.length[direction]; k += step {
			cut := proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: k})
			if err := c.call(ctx, fmt.Sprintf("%d-%d", direction, k)); err != nil {
				return err
			}
			cut.Disarm()
			c.Fault("cut", cut.Count())
			// The next call begins on a connection that has prepared everything.
			if err := c.call(ctx, fmt.Sprintf("%d-%d-after", direction, k)); err != nil {
				return err
			}
		}
	}
	c.Tally, err = c.ledger.Settle(ctx, c.db.Pool)
	c.Differing += c.wrongFlags
	return err
}

// call makes the calls of a prefix until they have answers.
func (c *cell) call(ctx context.Context, prefix string) (err error) {
	jobs := []lab.Job{lab.NewJob(prefix)}
	if c.way.Many {
		for i := range many - 1 {
			jobs = append(jobs, lab.NewJob(fmt.Sprintf("%s-%d", prefix, i)))
		}
	}
	var answers []lab.Told
	err = lab.Insist(ctx, func(ctx context.Context, _ int) (err error) {
		answers, err = c.way.Make(ctx, c.client, jobs)
		c.Calls++
		return err
	})
	if err != nil {
		c.ledger.Unanswered(prefix)
		return err
	}
	return c.note(ctx, jobs, answers)
}

// note notes answers, and judges what they say of themselves: nobody else
// calls, so that what is replayed is the call's own effect whose COMMIT was
// answered to nobody, and what is not replayed was the last effect to run.
func (c *cell) note(ctx context.Context, jobs []lab.Job, answers []lab.Told) error {
	var last int64
	if err := c.db.Pool.QueryRow(ctx, `SELECT last_value FROM runs`).Scan(&last); err != nil {
		return fmt.Errorf("reading the runs: %w", err)
	}
	for _, a := range answers {
		c.ledger.Answered(jobs[a.Job].Call.Key, a.Run)
		if strings.HasPrefix(c.way.Name, "DoTx") {
			a.Recovered = a.Replayed // the COMMIT is the caller's own
		}
		if a.Recovered {
			c.recovered++
		}
		if a.Replayed != a.Recovered || c.dedup && !a.Replayed && a.Run <= last-int64(len(answers)) {
			c.wrongFlags++
		}
	}
	return nil
}
