package replay_test

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"testing"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/replay"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestMain lets the test program be what the driver starts as its workers, and
// the whole command for tests that need a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "replay" || os.Args[1] == "replay-worker") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(program(ctx, os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	pgtest.Main(m)
}

func program(ctx context.Context, args []string, streams cli.Streams) int {
	return cli.Run(ctx, args, streams, replay.Command(), replay.WorkerCommand())
}

// outcome is what a run of the command came to.
type outcome struct {
	code        int
	out, stderr string
}

// execute runs the command in this process, with worker processes of the test
// program.
func execute(ctx context.Context, args ...string) outcome {
	var out, stderr bytes.Buffer
	code := program(ctx, append([]string{"replay"}, args...), cli.Streams{Out: &out, Err: &stderr})
	return outcome{code: code, out: out.String(), stderr: stderr.String()}
}

// smallDir is the folder of the recording inside the program.
const smallDir = "../recording/small"
