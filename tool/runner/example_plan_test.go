package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// A plan's keys are saved before the first try. A process that starts again takes the steps with
// the same keys.
func ExamplePlan() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "plan")
	exampleMust(err)
	defer os.RemoveAll(folder)
	checkpoint := filepath.Join(folder, "plan.json")
	save := func(_ context.Context, text []byte) error { return writeDurably(checkpoint, text) }

	var plan runner.Plan
	exampleMust(plan.Add(ctx, save, "reserve", "pay"))
	first, err := plan.Key("pay")
	exampleMust(err)

	// The process ends here, and another starts.
	text, err := os.ReadFile(checkpoint)
	exampleMust(err)
	resumed, err := runner.LoadPlan(text)
	exampleMust(err)
	second, err := resumed.Key("pay")
	exampleMust(err)
	fmt.Println("the same key:", first == second)

	// Only the server knows whether the step was done: the call is Resumed.
	call := runner.Call{Tool: "pay", Class: tool.Write, Key: second, Resumed: true}
	receipt, err := runner.Do(ctx, call, func(context.Context) (string, error) {
		return "receipt 1", nil // a replay, if the step was done before
	})
	fmt.Println(receipt, err)

	// Output:
	// the same key: true
	// receipt 1 <nil>
}

// writeDurably replaces a file and syncs it.
func writeDurably(path string, text []byte) error {
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func exampleMust(err error) {
	if err != nil {
		panic(err)
	}
}
