// Command dedup creates and checks the schema of github.com/tooldedup/dedup,
// and shows what the library does. See `dedup --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tooldedup/dedup/cmd/dedup/internal/chaos"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/cmd/dedup/internal/lookalikes"
	"github.com/tooldedup/dedup/cmd/dedup/internal/migrate"
	"github.com/tooldedup/dedup/cmd/dedup/internal/replay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)

	os.Exit(cli.Run(ctx, os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr},
		chaos.Command(),
		chaos.WorkerCommand(),
		migrate.Command(),
		doctor.Command(),
		replay.Command(),
		lookalikes.Command(),
		replay.WorkerCommand(),
	))
}
