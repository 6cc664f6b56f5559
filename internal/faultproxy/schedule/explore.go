// Package schedule runs callers of a database in every order of their round trips. Each caller has
// a proxy to a real server. The proxy holds each trip until the scheduler releases it: one trip at
// a time. The search runs the callers again and again from the start and releases their trips in
// another order each time, until there is no other order.
//
// Orders that differ only in trips which share nothing run once. shareOf in trip.go decides which
// trips share something, and tree.go leaves the other orders out.
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
	// Shares reports whether a statement may touch a row, a table or a lock that several callers
	// use. Statements that begin or end a transaction need not be named.
	Shares func(sql string) bool
	// Renew is called after an abandoned run, whose connections were cut.
	Renew func()
	// Looks is the number of looks of a polling caller that are released after each change of the
	// state. More looks are only released if no other trip can be.
	Looks int
	// Faults are the possible faults of one trip of a run. Every order also runs with each fault at
	// each trip.
	Faults []Fault
	// Draw, if it is not nil, draws Limit orders instead of the search. An order may be drawn
	// twice.
	Draw  *rand.Rand
	Limit int
}

// A Play is one run of the callers.
type Play struct {
	// Callers are the functions to run, each through the proxy with its number.
	Callers []func(ctx context.Context, turn *Turn)
	// Observe is called after each trip that may have changed the state for others, while no trip
	// is under way.
	Observe func(ctx context.Context, s Step) error
	// Judge is called after all callers have returned. Its error is a defect.
	Judge func(ctx context.Context) error
}

// Turn is a caller's place in a run.
type Turn struct {
	run   *run
	actor *actor
	begin chan struct{}
}

// Clock is the number of the trip that is under way, from 1.
func (t *Turn) Clock() int { return int(t.run.clock.Load()) }

// Wait waits for the caller's turn to begin, which is as late as its next trip that shares
// something. It returns at once if the run is over. Each caller begins with a Wait.
func (t *Turn) Wait() {
	t.run.events <- event{actor: t.actor, waits: true}
	select {
	case <-t.begin:
	case <-t.run.over:
	}
}

// Step is one released trip.
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

// Count has the figures of a search.
type Count struct {
	// Orders counts the orders that ran to their end and were judged. CutShort counts runs that
	// turned out to be a known order with swapped trips.
	Orders, CutShort int
	// Trips counts all released trips. Faulty counts the orders with a fault, by fault.
	Trips  int
	Faulty map[Fault]int
	// Wrong counts the orders with a defect.
	Wrong int
}

// Wrong is an order with a defect.
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

// Unwrap returns the defect.
func (w *Wrong) Unwrap() error { return w.Err }

const (
	// patience bounds a run, so that a caller that hangs is found.
	patience = 2 * time.Minute
	// tries is the number of runs before a run that does not repeat its predecessor is an error.
	tries = 4
)

// ErrStuck: no trip can be released, and a caller still waits.
var ErrStuck = errors.New("callers wait, and nothing can end that")

// errDiverged: a run did not repeat its predecessor.
var errDiverged = errors.New("a run did not repeat the one before it")

// Explore runs begin's plays in every order. It passes each order with a defect to wrong. The
// search ends if wrong is nil or returns false.
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
