package replay

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/cli"
)

// TestMain also runs the workers of the driver, and the whole command for tests that need a
// process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "replay" || os.Args[1] == "replay-worker") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		os.Exit(program(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	pgtest.Main(m)
}

func program(ctx context.Context, args []string, out, errs io.Writer) int {
	return cli.Run(ctx, args, out, errs, Command(), WorkerCommand())
}

// outcome is the result of a run of the command.
type outcome struct {
	code        int
	out, stderr string
}

// execute runs the command in this process. Its workers are processes of the test program.
func execute(ctx context.Context, args ...string) outcome {
	var out, stderr bytes.Buffer
	code := program(ctx, append([]string{"replay"}, args...), &out, &stderr)
	return outcome{code: code, out: out.String(), stderr: stderr.String()}
}

// smallDir is the folder of the recording inside the program.
const smallDir = "../../../internal/recording/small"
