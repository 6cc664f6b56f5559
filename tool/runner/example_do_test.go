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

// The answer to the first try is lost. The second try has the same key, so the server knows that it
// is the same call.
func ExampleDo() {
	ctx := context.Background()
	booked := map[string]string{} // the server's memory; package dedup keeps it in Postgres
	book := func(ctx context.Context) (string, error) {
		key, _ := runner.KeyFrom(ctx)
		if ticket, ok := booked[key]; ok {
			return ticket, nil
		}
		booked[key] = fmt.Sprint("ticket ", len(booked)+1)
		return "", io.ErrUnexpectedEOF
	}

	call := runner.Call{Tool: "book", Class: tool.Write, Pause: time.Millisecond}
	ticket, err := runner.Do(ctx, call, book)
	fmt.Println(ticket, err)
	fmt.Println("booked:", len(booked))

	// Output:
	// ticket 1 <nil>
	// booked: 1
}

// A tool that takes no key, and is Unclassified, is called once. The error says that this one call
// may have taken effect.
func ExampleGaveUpError() {
	ctx := context.Background()
	_, err := runner.Do(ctx, runner.Call{Tool: "send_mail"}, func(context.Context) (string, error) {
		return "", io.EOF
	})
	var gaveUp *runner.GaveUpError
	if errors.As(err, &gaveUp) && gaveUp.OutcomeUnknown {
		fmt.Println(err)
	}

	// Output:
	// runner: gave up on send_mail after 1 try; it may have taken effect: look before you repeat it: no try is left: EOF
}

// A key that an outer layer made reaches every inner call.
func ExampleWithKey() {
	ctx := runner.WithKey(context.Background(), "order 17")
	key, ok := runner.KeyFrom(ctx)
	fmt.Println(key, ok)

	// Output:
	// order 17 true
}

// An MCP client sends the key in _meta, and asks ResultError whether the result is the answer.
// callTool stands for the client's method.
func ExamplePutMeta() {
	type result struct {
		IsError bool
		Meta    map[string]any
		Text    string
	}
	calls := 0
	callTool := func(meta map[string]any) (result, error) {
		fmt.Println(meta)
		if calls++; calls == 1 {
			return result{IsError: true, Meta: map[string]any{"io.github.tooldedup/error": "unavailable"}}, nil
		}
		return result{Text: "booked"}, nil
	}

	call := runner.Call{Tool: "book", Class: tool.Write, Key: "order 17", Pause: time.Millisecond}
	answer, err := runner.Do(context.Background(), call, func(ctx context.Context) (string, error) {
		meta, err := runner.PutMeta(ctx, map[string]any{"progressToken": 7})
		if err != nil {
			return "", err
		}
		res, err := callTool(meta)
		if err != nil {
			return "", err
		}
		return res.Text, runner.ResultError(res.IsError, res.Meta)
	})
	fmt.Println(answer, err)

	// Output:
	// map[io.github.tooldedup/idempotency-key:order 17 progressToken:7]
	// map[io.github.tooldedup/idempotency-key:order 17 progressToken:7]
	// booked <nil>
}
