package counts

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const statsLong = `Say how many calls each tool had, how many of them were duplicates, and how long they took, as
Sweepers with RecordStats have recorded it. They keep 14 days. A process records once in its
Sweeper's Interval: what is younger is not in it.

Where nothing is recorded, the records of each tool are estimated from the planner's
statistics, which are as old as the last ANALYZE. Every such number is marked "~".`

// request is what the command line says.
type request struct {
	since time.Duration
	by    string
}

// Command returns the command `dedup stats`.
func Command() *cobra.Command {
	var q cli.Query
	var r request
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Say how many calls of each tool were duplicates",
		Long:  statsLong,
		Example: `  dedup stats --since 1h
  dedup stats --by outcome --json | jq 'select(.outcome == "unknown")'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd, &q) },
	}
	q.AddFlags(cmd, "row")
	cli.AddDuration(cmd, &r.since, "since", 24*time.Hour, "how far back, up to 14d")
	cmd.Flags().StringVar(&r.by, "by", "tool", "one row for each `what`: tool, or outcome of each tool")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"tool", "outcome"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (r *request) run(cmd *cobra.Command, q *cli.Query) error {
	switch {
	case r.since <= 0 || r.since > inspect.Kept:
		return exit.Usage("--since must be more than 0 and at most 14d")
	case r.by != "tool" && r.by != "outcome":
		return exit.Usage("--by must be tool or outcome")
	}
	return q.With(cmd, nil, func(ctx context.Context, db *cli.Database) error {
		var rows []inspect.Count
		var estimates []estimate
		err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
			rows, err = inspect.Recorded(ctx, tx, db.Schema, r.since, r.by == "outcome")
			return err
		})
		if err == nil && len(rows) > 0 {
			return writeAll(cmd, q, rows, func(c inspect.Count) cli.Entry { return entry{c} })
		}
		if err != nil && !inspect.IsMissing(err) {
			return err
		}
		if err := db.ReadOnly(ctx, func(tx pgx.Tx) (err error) {
			estimates, err = estimated(ctx, tx, db)
			return err
		}); err != nil {
			return err
		}
		there := ". These are estimates of the records that are kept."
		if len(estimates) == 0 {
			there = ", and there is no estimate: no ANALYZE of tool_dedup has run."
		}
		cmd.PrintErrf("Nothing was recorded in the last %s%s\n", cli.Lasting(r.since), there)
		return writeAll(cmd, q, estimates, func(e estimate) cli.Entry { return e })
	})
}

func writeAll[T any](cmd *cobra.Command, q *cli.Query, all []T, entry func(T) cli.Entry) error {
	for _, one := range all {
		if err := q.Write(cmd.OutOrStdout(), entry(one)); err != nil {
			return err
		}
	}
	return nil
}

// entry is a row as --json writes it. Its fields are stable: more may come, none goes.
type entry struct{ inspect.Count }

// estimate is a row that stands for what nobody has recorded. Its fields are stable too. Tool
// is empty where it is of all of them.
type estimate struct {
	Tool     string `json:"tool,omitempty"`
	Estimate bool   `json:"estimate"` // true
	Records  int64  `json:"records"`
}

// estimateSQL is what the planner takes the table for: the records of all tools, and of those
// that are frequent. $1 is the schema, $2 the
// table, which the server says is missing where it is.
const estimateSQL = `WITH target AS (
SELECT oid, relkind FROM pg_catalog.pg_class WHERE oid = $2::text::regclass
), records AS (
SELECT sum(c.reltuples) AS n
  FROM target t
  JOIN pg_catalog.pg_class c ON c.oid = t.oid OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(t.oid))
 WHERE c.relkind = 'r' AND c.reltuples >= 0
)
SELECT '', n::bigint FROM records WHERE n IS NOT NULL
 UNION ALL
SELECT f.tool, (f.frequency * r.n)::bigint
  FROM records r, target t
  JOIN pg_catalog.pg_stats s ON s.schemaname = $1::text AND s.tablename = 'tool_dedup' AND s.attname = 'tool' AND s.inherited = (t.relkind = 'p'),
       unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS f (tool, frequency)
 ORDER BY 2 DESC, 1`

func estimated(ctx context.Context, tx pgx.Tx, db *cli.Database) ([]estimate, error) {
	rows, err := tx.Query(ctx, estimateSQL, db.Schema, db.Table())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (estimate, error) {
		e := estimate{Estimate: true}
		return e, row.Scan(&e.Tool, &e.Records)
	})
}

// WriteText implements [cli.Entry].
func (e estimate) WriteText(out io.Writer) error {
	title := "all tools"
	if e.Tool != "" {
		title = cli.Word(e.Tool)
	}
	return cli.WriteText(out, title, "records", fmt.Sprintf("~%d", e.Records))
}

// WriteText implements [cli.Entry].
func (e entry) WriteText(out io.Writer) error {
	average := func(seconds float64) string {
		return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond).String()
	}
	took := average(e.Seconds) + ", of which " + average(e.Waited) + " waiting for twins"
	if e.Outcome != "" {
		return cli.WriteText(out, cli.Word(e.Tool)+": "+cli.Word(e.Outcome), "calls", fmt.Sprint(e.Calls), "on average", took)
	}
	return cli.WriteText(out, cli.Word(e.Tool),
		"calls", fmt.Sprint(e.Calls),
		"executed", fmt.Sprint(e.Executed),
		"duplicates", fmt.Sprintf("%d (%.1f %%)", e.Duplicates, 100*e.Rate),
		"on average", took)
}
