package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

func checkCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check that the table is there, sound and usable",
		Long: `Look for everything that would make a call fail, or run twice: a missing or half
applied schema, a wrong primary key, triggers, missing privileges, a standby, and
so on. All problems are listed at once, each with its fix, and the exit code is 1.
Nothing is changed.

Privileges are those of the role that connects: run it as the application's. An
application can do the same when it starts, with the Go function
migrations.Check.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return check(cmd, t) },
	}
}

func check(cmd *cobra.Command, t *target) error {
	ctx := cmd.Context()
	config, err := t.config()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	if err := migrations.Check(ctx, conn, &migrations.CheckOptions{Schema: t.Schema}); err != nil {
		return err
	}
	say(cmd, "%s is sound", t.Table())
	return nil
}
