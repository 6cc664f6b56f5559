// Package everybyte is the campaign that cuts the connection behind every byte
// of a whole call, in each direction, in each exec mode, for every way to call.
package everybyte

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

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

// Run runs the campaign. Params.Calls does not matter: there are as many calls
// as bytes.
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	var mu sync.Mutex
	recovered := 0
	var all errgroup.Group
	all.SetLimit(atOnce)
	start := func(w lab.Way, mode pgx.QueryExecMode) {
		all.Go(func() error {
			c := &cell{mode: mode}
			a, err := l.Try(ctx, p, w, c.try)
			mu.Lock()
			defer mu.Unlock()
			s.EnterBy(w, a)
			recovered += c.recovered
			p.Sayf("%s, %s: %d calls, %d cuts of %d bytes to the server and %d to the client: %v, %d recovered",
				w.Name, mode, a.Calls, a.AllFaults(), c.length[faultproxy.ToServer], c.length[faultproxy.ToClient], a.Tally, c.recovered)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", w.Name, mode, err)
			}
			return nil
		})
	}
	for _, mode := range lab.Modes {
		for _, w := range lab.Ways {
			start(w, mode)
		}
	}
	start(lab.Plain, lab.Modes[0])
	err := all.Wait()
	s.Details["recovered"] = recovered
	return err
}

// cell is one way in one mode.
type cell struct {
	*lab.Trial
	mode   pgx.QueryExecMode
	client *lab.Client

	length    map[faultproxy.Direction]int64 // bytes of an undisturbed call
	recovered int                            // calls whose answer to COMMIT was lost
	// wrongFlags counts answers that say of themselves what is not so.
	wrongFlags int
}

// try cuts every call of the cell.
func (c *cell) try(ctx context.Context, t *lab.Trial) (err error) {
	c.Trial = t
	if t.Proxy, err = faultproxy.New(t.URL); err != nil {
		return err
	}
	if c.client, err = t.Client(ctx, 1, c.mode, &dedup.Options{Retry: lab.Retry(20 * time.Millisecond)}); err != nil {
		return err
	}
	for i := range 3 { // statements are prepared and plans are cached by then
		t.Proxy.Reset()
		if err := c.call(ctx, fmt.Sprintf("warm-%d", i)); err != nil {
			return err
		}
	}
	seen := t.Proxy.Snapshot()
	c.length = map[faultproxy.Direction]int64{faultproxy.ToServer: seen.BytesToServer, faultproxy.ToClient: seen.BytesToClient}

	step, first := int64(1), int64(0)
	if t.Params.Short && t.Way.Dedup() {
		step, first = stride, int64(t.Params.Seed%stride)
	}
	for _, direction := range []faultproxy.Direction{faultproxy.ToServer, faultproxy.ToClient} {
		for k := first; k < c.length[direction]; k += step {
			cut := t.Proxy.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: direction, Bytes: k})
			if err := c.call(ctx, fmt.Sprintf("%d-%d", direction, k)); err != nil {
				return err
			}
			cut.Disarm()
			t.Fault("cut", cut.Count())
			// The next call begins on a connection that has prepared everything.
			if err := c.call(ctx, fmt.Sprintf("%d-%d-after", direction, k)); err != nil {
				return err
			}
		}
	}
	t.Tally, err = t.Ledger.Settle(ctx, t.Pool)
	t.Differing += c.wrongFlags
	return err
}

// call makes the calls of a prefix until they have answers.
func (c *cell) call(ctx context.Context, prefix string) (err error) {
	jobs := []lab.Job{lab.NewJob(prefix)}
	if c.Way.Many {
		for i := range many - 1 {
			jobs = append(jobs, lab.NewJob(fmt.Sprintf("%s-%d", prefix, i)))
		}
	}
	var answers []lab.Told
	err = lab.Insist(ctx, func(ctx context.Context, _ int) (err error) {
		answers, err = c.Way.Make(ctx, c.client, jobs)
		c.Calls++
		return err
	})
	if err != nil {
		c.Ledger.Unanswered(prefix)
		return err
	}
	return c.note(ctx, jobs, answers)
}

// note notes answers, and judges what they say of themselves: nobody else
// calls, so that what is replayed is the call's own effect whose COMMIT was
// answered to nobody, and what is not replayed was the last effect to run.
func (c *cell) note(ctx context.Context, jobs []lab.Job, answers []lab.Told) error {
	var last int64
	if err := c.Pool.QueryRow(ctx, `SELECT last_value FROM runs`).Scan(&last); err != nil {
		return fmt.Errorf("reading the runs: %w", err)
	}
	for _, a := range answers {
		c.Ledger.Answered(jobs[a.Job].Call.Key, a.Run)
		if strings.HasPrefix(c.Way.Name, "DoTx") {
			a.Recovered = a.Replayed // the COMMIT is the caller's own
		}
		if a.Recovered {
			c.recovered++
		}
		if a.Replayed != a.Recovered || c.Way.Dedup() && !a.Replayed && a.Run <= last-int64(len(answers)) {
			c.wrongFlags++
		}
	}
	return nil
}
