package migrate

import (
	"fmt"
	"path"
	"text/tabwriter"

	"github.com/pressly/goose/v3"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

func statusCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which migrations have been applied",
		Long: `Show the migrations and which of them tool_dedup_version records as applied.
Nothing is changed, and migrations that are pending are no failure; see check.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return status(cmd, t) },
	}
}

func status(cmd *cobra.Command, t *target) error {
	ctx := cmd.Context()
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	p, err := s.provider()
	if err != nil {
		return err
	}

	var all []*goose.MigrationStatus
	if s.versionsFound {
		if all, err = p.Status(ctx); err != nil {
			return fmt.Errorf("reading %s: %w", migrations.VersionTable, err)
		}
	} else {
		// Goose would create the table.
		for _, source := range p.ListSources() {
			all = append(all, &goose.MigrationStatus{Source: source, State: goose.StatePending})
		}
	}

	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MIGRATION\tSTATE\tAPPLIED AT")
	for _, m := range all {
		at := "-"
		if m.State == goose.StateApplied {
			at = m.AppliedAt.Format("2006-01-02 15:04:05")
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", path.Base(m.Source.Path), m.State, at)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if s.tableFound && !s.recorded {
		cmd.PrintErrf("%s. See `dedup migrate check`.\n", s.otherMeans())
	}
	return nil
}
