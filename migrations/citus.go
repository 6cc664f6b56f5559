package migrations

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CitusSQL returns the statements that place the tables of a schema on a Citus cluster, to be
// run on the coordinator after the migrations: tool_dedup and tool_effect are distributed by
// scope, and the two tables that are not about one scope are added to Citus's metadata, so
// that every node can write to them. A table that Citus manages already stays as it is. In a
// schema that Citus distributes as a whole, it manages all of them.
//
// The application's distributed tables must be co-located with tool_dedup. colocateWith names
// one of them; where there is none yet it is empty, and they name tool_dedup in turn. Their
// tenant column must be text COLLATE "C", as scope is. So Citus's default group is not used:
// others could not join it.
//
// Run them in one transaction. While calls run, first distribute the application's tables, in a
// transaction of their own: in one transaction with tool_dedup Citus may report a deadlock.
func CitusSQL(schema, colocateWith string) string {
	const unless = ` WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = %s::regclass);` + "\n"
	if colocateWith == "" {
		colocateWith = "none"
	}
	name := func(table string) string { return literal(pgx.Identifier{schema, table}.Sanitize()) }
	var out strings.Builder
	distribute := func(table, beside string) {
		fmt.Fprintf(&out, "SELECT create_distributed_table(%s, 'scope', colocate_with => %s)\n"+unless, name(table), beside, name(table))
	}
	distribute("tool_dedup", literal(colocateWith))
	distribute("tool_effect", name("tool_dedup"))
	for _, table := range []string{"tool_dedup_audit", "tool_dedup_stat"} {
		fmt.Fprintf(&out, "SELECT citus_add_local_table_to_metadata(%s)\n"+unless, name(table), name(table))
	}
	return out.String()
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
