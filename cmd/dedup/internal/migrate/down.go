package migrate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/migrations"
)

func downCommand(t *target) *cobra.Command {
	var dropRecords bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Roll the latest migration back; the first one drops the table",
		Long: `Roll back the migration that was applied last. Rolling back the first one drops
tool_dedup, and with it the memory of every call: one that is retried after that
runs again. So it is refused while there are records that still protect a call,
unless --drop-records is given. The table tool_dedup_version stays.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return down(cmd, t, dropRecords) },
	}
	cmd.Flags().BoolVar(&dropRecords, "drop-records", false, "drop records that still keep a call from running again")
	return cmd
}

func down(cmd *cobra.Command, t *target, dropRecords bool) error {
	ctx := cmd.Context()
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if !s.recorded {
		say(cmd, "nothing to do: %s records no migration", migrations.VersionTable)
		return nil
	}

	p, err := s.lockedProvider()
	if err != nil {
		return err
	}
	version, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading %s: %w", migrations.VersionTable, err)
	}
	if version == p.ListSources()[0].Version && s.tableFound && !dropRecords {
		if err := s.refuseRecords(ctx); err != nil {
			return err
		}
	}
	result, err := p.Down(ctx)
	if err != nil {
		return fmt.Errorf("rolling back migration %d: %w", version, err)
	}
	say(cmd, "rolled back %s", describe(result))
	return nil
}

// refuseRecords returns an error if there are records that may not be forgotten
// yet.
func (s *schema) refuseRecords(ctx context.Context) error {
	var protecting bool
	err := s.db.QueryRowContext(ctx, `
		SELECT EXISTS (SELECT FROM `+s.Table()+` WHERE forget_at > now())`).Scan(&protecting)
	if err != nil {
		return fmt.Errorf("looking for records: %w", err)
	}
	if protecting {
		return fmt.Errorf("%s holds records that still keep calls from running again; to drop them all the same, give --drop-records", s.Table())
	}
	return nil
}
