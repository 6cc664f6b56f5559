// Command proof shows that the promise of github.com/tooldedup/dedup holds, with recorded agent
// sessions and with campaigns of faults. See `go run ./proof --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tooldedup/dedup/proof/internal/chaos"
	"github.com/tooldedup/dedup/proof/internal/cli"
	"github.com/tooldedup/dedup/proof/internal/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)

	commands := append(chaos.WorkerCommands(), chaos.Command(), replay.Command(), replay.WorkerCommand())
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, commands...))
}
