package runner_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tooldedup/dedup/tool/runner"
)

// A key that was made further out reaches everything below it.
func ExampleWithKey() {
	ctx := runner.WithKey(context.Background(), "order 17")
	key, ok := runner.KeyFrom(ctx)
	fmt.Println(key, ok)

	// Output:
	// order 17 true
}

// An MCP request carries the key in its _meta, beside what is there already.
func ExamplePutMeta() {
	ctx := runner.WithKey(context.Background(), "order 17")
	meta, err := runner.PutMeta(ctx, map[string]any{"progressToken": 7})
	fmt.Println(meta, err)

	_, err = runner.PutMeta(ctx, map[string]any{runner.MetaKey: "order 18"})
	fmt.Println("two keys:", errors.Is(err, runner.ErrKeyConflict))

	// Output:
	// map[io.github.tooldedup/idempotency-key:order 17 progressToken:7] <nil>
	// two keys: true
}
