package migrations

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CitusSQL returns the statements that distribute the tables of a schema on a Citus cluster. Run
// them on the coordinator, after the migrations. They distribute tool_dedup and tool_effect by
// scope. They add the two other tables to Citus's metadata, so that every node can write to them.
// They leave a table as it is if Citus manages it already. In a distributed schema Citus manages
// all tables.
//
// The application's distributed tables must be co-located with tool_dedup, and their tenant column
// must be text COLLATE "C", as scope is. colocateWith names one of these tables. If there is none
// yet, colocateWith is empty, and you later distribute them with tool_dedup as their colocate_with.
// The statements do not use Citus's default group, because tables with other columns could not
// join it.
//
// Run the statements in one transaction. While calls run, first distribute the application's
// tables, in a transaction of their own: in one transaction with tool_dedup Citus may report a
// deadlock.
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
