package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// impatient keeps an example's pauses short.
var impatient = &runner.Policy{Tries: 3, First: time.Millisecond}

// The answer to the first try is lost. The second has the same key, so whoever
// is called can tell that it is the same call.
func ExampleDo() {
	ctx := context.Background()
	booked := map[string]string{} // the other side's memory, which package dedup keeps in Postgres
	book := func(_ context.Context, t runner.Try) (string, error) {
		if ticket, ok := booked[t.Key]; ok {
			return ticket, nil
		}
		booked[t.Key] = fmt.Sprint("ticket ", len(booked)+1)
		return "", io.ErrUnexpectedEOF
	}

	call := runner.Call{Tool: "book", Class: tool.Write, Policy: impatient}
	result, err := runner.Do(ctx, nil, call, book)
	fmt.Println(result.Value, "after", result.Tries, "tries:", err)
	fmt.Println("booked:", len(booked))

	// Output:
	// ticket 1 after 2 tries: <nil>
	// booked: 1
}

// A tool that takes no key is called once. Its error says that this one call may
// have taken effect.
func ExampleGaveUpError() {
	ctx := context.Background()
	call := runner.Call{Tool: "send_mail", Class: tool.Write, Unkeyed: true}
	_, err := runner.Do(ctx, nil, call, func(context.Context, runner.Try) (string, error) {
		return "", io.EOF
	})
	var gaveUp *runner.GaveUpError
	if errors.As(err, &gaveUp) && gaveUp.OutcomeUnknown {
		fmt.Println(err)
	}

	// Output:
	// runner: gave up on send_mail after 1 try; it may have taken effect: look before you repeat it: no try is left: EOF
}

// Retries are told as they happen, and waits are up to the Runner's clock.
func ExampleRunner() {
	ctx := context.Background()
	r := &runner.Runner{
		Rand: func(n int64) int64 { return n - 1 }, // the longest pause, where the default draws one
		OnRetry: func(_ context.Context, e runner.Event) {
			fmt.Println(e.Tool, "again in", e.Pause, "after try", e.Tries, "failed:", e.Err)
		},
	}
	call := runner.Call{Tool: "list_flights", Class: tool.ReadOnly, Policy: impatient}
	result, err := runner.Do(ctx, r, call, func(_ context.Context, t runner.Try) (int, error) {
		if t.Number < 3 {
			return 0, &runner.StatusError{Code: 503}
		}
		return 12, nil
	})
	fmt.Println(result.Value, err)

	// Output:
	// list_flights again in 1ms after try 1 failed: runner: status 503 (Service Unavailable)
	// list_flights again in 2ms after try 2 failed: runner: status 503 (Service Unavailable)
	// 12 <nil>
}
