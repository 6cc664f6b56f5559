package runner_test

import (
	"context"
	"fmt"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// An MCP client sends the key in _meta, and asks the result whether it is the answer. Here
// callTool stands for the client's.
func ExampleResultError() {
	type result struct {
		IsError bool
		Meta    map[string]any
		Text    string
	}
	calls := 0
	callTool := func(meta map[string]any) (result, error) {
		fmt.Println("_meta:", meta[runner.MetaKey])
		if calls++; calls == 1 {
			return result{IsError: true, Meta: map[string]any{"io.github.tooldedup/error": "unavailable"}}, nil
		}
		return result{Text: "booked"}, nil
	}

	call := runner.Call{Tool: "book", Class: tool.Write, Key: "order 17", Policy: impatient}
	answer, err := runner.Do(context.Background(), nil, call, func(ctx context.Context, _ runner.Try) (string, error) {
		meta, err := runner.PutMeta(ctx, nil)
		if err != nil {
			return "", err
		}
		res, err := callTool(meta)
		if err != nil {
			return "", err
		}
		return res.Text, runner.ResultError(res.IsError, res.Meta)
	})
	fmt.Println(answer.Value, "after", answer.Tries, "tries:", err)

	// Output:
	// _meta: order 17
	// _meta: order 17
	// booked after 2 tries: <nil>
}
