package migrate

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/migrations"
)

func downCommand(s *schema) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Roll the latest migration back, and drop its table",
		Long: `Roll back the migration that was applied last. Rolling back the first one drops
tool_dedup, and with it the memory of every call: one that is retried after that
runs again. The third one makes tool_effect, which has what is outside of the
database. Both are refused while there are rows that still protect a call, unless
--drop-records is given. The fourth drops the audit, which no call needs, and the fifth
the counts. The table tool_dedup_version stays.`,
		Args: cobra.NoArgs,
		RunE: s.with(s.down),
	}
	cmd.Flags().BoolVar(&s.dropRecords, "drop-records", false, "drop records that still keep a call from running again")
	return cmd
}

func (s *schema) down(cmd *cobra.Command) error {
	ctx := cmd.Context()
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
	if !s.dropRecords {
		if err := s.refuseToForget(ctx, version, p.ListSources()[0].Version); err != nil {
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

// effects is the migration that makes tool_effect.
const effects = 3

// refuseToForget returns an error if rolling a migration back would drop what keeps calls
// from running again: records that may not be forgotten yet, or operations outside of the
// database.
func (s *schema) refuseToForget(ctx context.Context, version, first int64) error {
	var table, of string
	switch {
	case version == first && s.tableFound:
		table, of = s.Table(), "SELECT FROM "+s.Table()+" WHERE forget_at > now()"
	case version == effects:
		table = pgx.Identifier{s.Schema, "tool_effect"}.Sanitize()
		of = "SELECT FROM " + table + " WHERE forget_at IS NULL OR forget_at > now()"
	default:
		return nil
	}
	var protecting bool
	err := s.db.QueryRowContext(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", table).Scan(&protecting)
	if err == nil && protecting {
		err = s.db.QueryRowContext(ctx, "SELECT EXISTS ("+of+")").Scan(&protecting)
	}
	if err != nil {
		return fmt.Errorf("looking for records: %w", err)
	}
	if protecting {
		return fmt.Errorf("%s holds records that still keep calls from running again; to drop them all the same, give --drop-records", table)
	}
	return nil
}
