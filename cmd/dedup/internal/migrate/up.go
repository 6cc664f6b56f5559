package migrate

import (
	"fmt"
	"path"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

func upCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Create the table, or bring it up to date",
		Long: `Apply the migrations that have not been applied, each in a transaction of its own,
and record them in tool_dedup_version. When there are none, nothing happens, so
that it can be run at every deployment, and by several at once.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, t) },
	}
}

func up(cmd *cobra.Command, t *target) error {
	ctx := cmd.Context()
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	// Before goose creates a version table that would say so falsely.
	if s.tableFound && !s.recorded {
		return fmt.Errorf("%s is there, but %s records no migration of it: it was applied by other means than goose; apply new migrations by those, and see `dedup migrate check`",
			s.Table(), migrations.VersionTable)
	}

	p, err := s.lockedProvider()
	if err != nil {
		return err
	}
	results, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("applying the migrations: %w", err)
	}
	for _, result := range results {
		say(cmd, "applied %s", describe(result))
	}
	if len(results) == 0 {
		say(cmd, "nothing to do: all migrations are applied")
	}
	return nil
}

// describe says which migration it was, and how long it took.
func describe(result *goose.MigrationResult) string {
	return fmt.Sprintf("%s in %s", path.Base(result.Source.Path), result.Duration.Round(time.Millisecond))
}
