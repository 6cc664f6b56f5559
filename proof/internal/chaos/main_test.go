package chaos_test

import (
	"context"
	"os"
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/chaos"
	"github.com/tooldedup/dedup/proof/internal/cli"
)

// TestMain also runs the worker processes that campaigns start and kill.
func TestMain(m *testing.M) {
	for _, worker := range chaos.WorkerCommands() {
		if len(os.Args) == 2 && os.Args[1] == worker.Name() {
			os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, worker))
		}
	}
	pgtest.Main(m)
}
