package deduptest

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// tables counts the rows of Tool.Tables, and how many of them one effect adds.
type tables struct {
	names     []string
	rows, per []int
	effects   int // the number of effects when the rows were counted
}

// read counts the rows of each table.
func (v *verification) read(ctx context.Context) (rows []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	rows = make([]int, len(v.tool.Tables))
	for i, name := range v.tool.Tables {
		table := pgx.Identifier(strings.Split(name, ".")).Sanitize()
		if err := v.direct.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&rows[i]); err != nil {
			return nil, fmt.Errorf("Tool.Tables: counting the rows of %s: %w", table, err)
		}
	}
	return rows, nil
}

// checkTables reports the tables whose rows do not match the number of effects. It reports a
// difference once.
func (tr *trial) checkTables(effects int) {
	rows, err := tr.v.read(tr.ctx)
	if err != nil {
		tr.problemf("%v", err)
		return
	}
	of := &tr.v.tables
	for i, name := range of.names {
		got, want := rows[i]-of.rows[i], of.per[i]*(effects-of.effects)
		if got != want {
			tr.problemf("%d new rows in %s instead of %d, %d an effect: something writes there that is no part of the effect", got, name, want, of.per[i])
		}
	}
	of.rows, of.effects = rows, effects
}
