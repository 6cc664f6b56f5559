package migrate

import (
	"fmt"
	"path"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/migrations"
)

func upCommand(t *target) *cobra.Command {
	var recreate bool
	var place citus
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create the table, or bring it up to date",
		Long: `Apply the migrations that have not been applied, each in a transaction of its own,
and record them in tool_dedup_version. When there are none, nothing happens, so
that it can be run at every deployment, and by several at once.

A table that was dropped although its migration is recorded is an error: restore
it, or give --recreate. A tool_dedup that is made anew knows no earlier call, so
that each one runs again when it is retried.

With --citus the tables are then placed on the Citus cluster, in one transaction, unless
they are already. ` + "`dedup migrate print --citus`" + ` prints what is run. Where calls are
running, run that yourself, in the transaction that distributes their own tables.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, t, recreate, &place) },
	}
	place.addFlags(cmd)
	cmd.Flags().BoolVar(&recreate, "recreate", false, "make a table anew, empty, that was dropped although its migration is recorded")
	return cmd
}

func up(cmd *cobra.Command, t *target, recreate bool, place *citus) error {
	ctx := cmd.Context()
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	// Before goose creates a version table that would say so falsely.
	if s.tableFound && !s.recorded {
		return fmt.Errorf("%s; apply new migrations by those, and see `dedup migrate check`", s.otherMeans())
	}

	if err := s.settleDropped(cmd, recreate); err != nil {
		return err
	}

	// A migration that is forgotten by settleDropped may be older than others.
	p, err := s.lockedProvider(goose.WithAllowOutofOrder(true))
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
	if place.wanted {
		return s.place(cmd, place)
	}
	return nil
}

// settleDropped makes goose forget the migrations whose table was dropped, so that
// it applies them again. Without recreate such a table is an error.
func (s *schema) settleDropped(cmd *cobra.Command, recreate bool) error {
	ctx := cmd.Context()
	for _, t := range examiner.Tables() {
		name := pgx.Identifier{s.Schema, t.Name}.Sanitize()
		for _, version := range t.Migrations {
			dropped, err := s.dropped(ctx, version, t.Name)
			switch {
			case err != nil:
				return err
			case !dropped:
				continue
			case !recreate:
				return fmt.Errorf("there is no table %s, although %s records migration %d, which makes it: restore it, or make it anew, empty, with `dedup migrate up --recreate`",
					name, migrations.VersionTable, version)
			}
			if err := s.forgetDropped(ctx, version, t.Name); err != nil {
				return err
			}
			say(cmd, "%s was dropped and is made anew, empty", name)
		}
	}
	return nil
}

// describe says which migration it was, and how long it took.
func describe(result *goose.MigrationResult) string {
	return fmt.Sprintf("%s in %s", path.Base(result.Source.Path), result.Duration.Round(time.Millisecond))
}
