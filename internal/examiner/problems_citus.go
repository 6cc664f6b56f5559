package examiner

import (
	"fmt"
	"strings"
)

func (c *catalog) citusProblems() []Problem {
	if !c.HasCitus {
		return nil
	}
	table := c.dedup().Name
	if c.Citus != nil && (c.Citus.Column == "scope" || c.Citus.SingleShard) {
		return c.besideProblems()
	}
	what := table + " is not distributed on this Citus cluster"
	if c.Citus != nil {
		what = table + " is on this Citus cluster not distributed by scope"
	}
	return []Problem{problem("citus_not_distributed",
		what+": a record and the effect on a distributed table are then not one atomic transaction",
		fmt.Sprintf("distribute it by scope, beside the application's tables: SELECT create_distributed_table('%s', 'scope', colocate_with => …). "+
			`The column that those are distributed by must be text COLLATE "C", as scope is`, strings.ReplaceAll(table, "'", "''")))}
}

// besideProblems are tables that Citus does not commit together with a
// record: it commits the record's node first, and this node's part afterwards.
func (c *catalog) besideProblems() []Problem {
	if len(c.Beside) == 0 {
		return nil
	}
	const most = 20
	names := strings.Join(c.Beside[:min(most, len(c.Beside))], ", ")
	if more := len(c.Beside) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return []Problem{problem("citus_plain_tables",
		fmt.Sprintf("%s is distributed, and these tables lie on this node alone: %s. What an effect writes to one of them can be lost although its record is committed, and no retry repeats it", c.dedup().Name, names),
		"distribute them, make them reference tables (SELECT create_reference_table('…')), add them to Citus's metadata (SELECT citus_add_local_table_to_metadata('…')), "+
			"or, where no effect writes to one, revoke INSERT, UPDATE and DELETE on it from role "+c.Role)}
}
