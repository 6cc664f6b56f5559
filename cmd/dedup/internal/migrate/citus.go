package migrate

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/migrations"
)

// citus is how the tables are to be placed on a Citus cluster.
type citus struct {
	wanted       bool
	colocateWith string
}

func (c *citus) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.wanted, "citus", false, "place the tables on a Citus cluster: distributed by scope")
	cmd.Flags().StringVar(&c.colocateWith, "colocate-with", "", "a distributed table of the application, whose tenant column is text COLLATE \"C\" (default none: those name tool_dedup)")
}

func (c *citus) sql(schema string) string { return migrations.CitusSQL(schema, c.colocateWith) }

// place places the tables, all or none.
func (s *schema) place(cmd *cobra.Command, c *citus) error {
	ctx := cmd.Context()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("placing the tables: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing after the COMMIT
	if _, err := tx.ExecContext(ctx, c.sql(s.Schema)); err != nil {
		return fmt.Errorf("placing the tables (on the coordinator, which must have Citus): %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("placing the tables: %w", err)
	}
	say(cmd, "the tables are distributed")
	return nil
}
