package failsafe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

type Ticket struct{ ID int }

// server is the server that the client calls. It is up until down is set.
type server struct {
	down  bool
	calls int
}

func (s *server) CreateTicket(context.Context, string) (Ticket, error) {
	s.calls++
	if s.down {
		return Ticket{}, &runner.StatusError{Code: 503}
	}
	return Ticket{ID: s.calls}, nil
}

// tickets is a client whose calls share a circuit breaker and a budget of retries.
type tickets struct {
	server  *server
	breaker circuitbreaker.CircuitBreaker[Ticket]
	retries ratelimiter.RateLimiter[Ticket]
}

func (c *tickets) create(ctx context.Context, title string) (Ticket, error) {
	call := runner.Call{Tool: "create_ticket", Class: tool.Write, Pause: time.Millisecond} // short for the example
	tries := 0
	return runner.Do(ctx, call, func(ctx context.Context) (Ticket, error) {
		if tries++; tries > 1 && !c.retries.TryAcquirePermit() {
			return Ticket{}, ratelimiter.ErrExceeded
		}
		return failsafe.With(c.breaker).WithContext(ctx).Get(func() (Ticket, error) {
			return c.server.CreateTicket(ctx, title)
		})
	})
}

// While the server is down the breaker opens after four failures, in the middle of the second call.
// Then nothing is sent, and nothing is retried.
func Example_circuitBreaker() {
	ctx := context.Background()
	c := &tickets{
		server: &server{},
		// Count only faults that another try could repair: an answer is no reason to stop.
		breaker: circuitbreaker.NewBuilder[Ticket]().WithFailureThreshold(4).WithDelay(time.Hour).
			HandleIf(func(_ Ticket, err error) bool { return runner.IsRetryable(err) }).Build(),
		retries: ratelimiter.NewBursty[Ticket](100, time.Hour),
	}
	ticket, err := c.create(ctx, "the heating is cold")
	fmt.Println(ticket.ID, err)

	c.server.down = true
	for range 3 {
		before := c.server.calls
		_, err := c.create(ctx, "the window is stuck")
		var gaveUp *runner.GaveUpError
		fmt.Println("sent:", c.server.calls-before,
			"open:", errors.Is(err, circuitbreaker.ErrOpen),
			"may have taken effect:", errors.As(err, &gaveUp) && gaveUp.OutcomeUnknown)
	}

	// Output:
	// 1 <nil>
	// sent: 3 open: false may have taken effect: true
	// sent: 1 open: true may have taken effect: true
	// sent: 0 open: true may have taken effect: false
}

// All calls together may retry three times an hour. After that each call has one try.
func Example_budget() {
	ctx := context.Background()
	c := &tickets{
		server:  &server{down: true},
		breaker: circuitbreaker.NewBuilder[Ticket]().WithFailureThreshold(100).Build(),
		retries: ratelimiter.NewBursty[Ticket](3, time.Hour),
	}
	for range 3 {
		before := c.server.calls
		_, err := c.create(ctx, "the window is stuck")
		fmt.Println("sent:", c.server.calls-before, "budget spent:", errors.Is(err, ratelimiter.ErrExceeded))
	}

	// Output:
	// sent: 3 budget spent: false
	// sent: 2 budget spent: true
	// sent: 1 budget spent: true
}
