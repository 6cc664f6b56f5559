// Command dedup creates and checks the schema of github.com/tooldedup/dedup, shows, frees, exports
// and erases records, lists what needs attention, resolves effects outside the database that are
// parked, and serves the console. See `dedup --help`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tooldedup/dedup/cmd/dedup/internal/calls"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/console"
	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/cmd/dedup/internal/migrate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)

	os.Exit(cli.Run(ctx, os.Args[1:], cli.Streams{Out: os.Stdout, Err: os.Stderr},
		migrate.Command(),
		doctor.Command(),
		calls.Attention(),
		calls.List(),
		calls.Show(),
		calls.Key(),
		calls.Reset(),
		calls.Erase(),
		calls.Export(),
		calls.Audit(),
		calls.Stats(),
		console.Command(),
		calls.Parked(),
		calls.Resolve(),
	))
}
