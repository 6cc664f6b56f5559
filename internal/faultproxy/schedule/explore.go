// Package schedule runs callers of a database in every order of their round trips. Each caller has a proxy to a real
// server, which holds each of its trips until the scheduler lets it go: one at a time. The search runs the callers
// again and again from the start, and lets their trips go in another order each time, until there is none left.
//
// Orders that differ only in trips which share nothing are run once. Which trips share something is said by shareOf in
// trip.go, and how the others are left out in tree.go.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// Explorer explores the orders of callers.
type Explorer struct {
	// Proxies are the ways to the server, one for each caller.
	Proxies []*faultproxy.Proxy
	// Own is a way to the same server beside the proxies.
	Own *pgxpool.Pool
	// Shares reports whether a statement may touch what several callers use: a row, a table, a lock.
	// Those that begin or end a transaction need not be named.
	Shares func(sql string) bool
	// Renew is called after a run that was given up, when its connections were cut.
	Renew func()
	// Looks are how many looks of a caller that polls are let go whenever the state has changed. Further
	// ones are only let go where nothing else can.
	Looks int
	// Faults are what one trip of a run may meet. With them every order is also run with each of them at
	// each trip.
	Faults []Fault
	// Draw, if it is not nil, draws Limit orders in place of the search. Some may come twice.
	Draw  *rand.Rand
	Limit int
}

// A Play is one run of the callers.
type Play struct {
	// Callers are what to run, each through the proxy of its number.
	Callers []func(ctx context.Context, turn *Turn)
	// Observe is called after each trip that may have changed what others see, while nothing moves.
	Observe func(ctx context.Context, s Step) error
	// Judge is called when all callers have returned, and returns what is wrong.
	Judge func(ctx context.Context) error
}

// Turn is a caller's place in a run.
type Turn struct {
	run   *run
	actor *actor
	begin chan struct{}
}

// Clock is the number of the trip that is let go at the moment, from 1.
func (t *Turn) Clock() int { return int(t.run.clock.Load()) }

// Wait waits until it is the caller's turn to begin: as late as its next trip that shares something. It returns
// at once where the run is over. Each caller begins with one.
func (t *Turn) Wait() {
	t.run.events <- event{actor: t.actor, waits: true}
	select {
	case <-t.begin:
	case <-t.run.over:
	}
}

// Step is one trip that was let go.
type Step struct {
	Number, Caller int
	Fault          Fault
	Text           string
}

func (s Step) String() string {
	text := fmt.Sprintf("%d. %c: %s", s.Number, 'A'+rune(s.Caller), s.Text)
	if s.Fault != None {
		text += " [" + string(s.Fault) + "]"
	}
	return text
}

// Count is what a search has come to.
type Count struct {
	// Orders are those that were run to their end and judged. Cut short were runs that turned out to be another order
	// with trips swapped that share nothing.
	Orders, CutShort int
	// Trips were let go in all, Faulty are the orders with a fault, by fault.
	Trips  int
	Faulty map[Fault]int
	// Wrong are the orders in which something was wrong.
	Wrong int
}

// Wrong is an order in which something was wrong.
type Wrong struct {
	Steps []Step
	Err   error
}

func (w *Wrong) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, in this order:", w.Err)
	for _, s := range w.Steps {
		fmt.Fprintf(&b, "\n\t%v", s)
	}
	return b.String()
}

// Unwrap returns what was wrong.
func (w *Wrong) Unwrap() error { return w.Err }

const (
	// patience bounds a run, so that a caller that does nothing shows.
	patience = 2 * time.Minute
	// tries are how often a run is made that does not repeat what the one before it did.
	tries = 4
)

// ErrStuck: nothing can be let go, and somebody still waits.
var ErrStuck = errors.New("callers wait, and nothing can end that")

// errDiverged: a run has not repeated what it had done before.
var errDiverged = errors.New("a run did not repeat the one before it")

// Explore runs begin's plays in every order. It tells wrong of each order in which something was wrong; where that
// returns false, or is nil, the search ends with it.
func (e *Explorer) Explore(ctx context.Context, begin func(context.Context) (Play, error), wrong func(*Wrong) bool) (Count, error) {
	c := Count{Faulty: map[Fault]int{}}
	t := &tree{draw: e.Draw}
	for diverged := 0; ; {
		play, err := begin(ctx)
		if err != nil {
			return c, err
		}
		r := newRun(e, t, play)
		err = r.play(ctx)
		c.Trips += len(r.steps)
		switch found, isWrong := errors.AsType[*Wrong](err); {
		case errors.Is(err, errDiverged):
			if diverged++; diverged == tries {
				return c, fmt.Errorf("%w: %v", err, r.steps)
			}
			continue
		case errors.Is(err, errRedundant):
			c.CutShort++
		case err != nil && !isWrong:
			return c, fmt.Errorf("%w: %v", err, r.steps)
		default:
			c.Orders++
			if r.fault != None {
				c.Faulty[r.fault]++
			}
			if isWrong {
				c.Wrong++
				if wrong == nil || !wrong(found) {
					return c, found
				}
			}
		}
		diverged = 0
		if !t.next() || e.Draw != nil && c.Orders >= e.Limit {
			return c, nil
		}
	}
}
