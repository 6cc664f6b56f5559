package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// OperateOptions say how the command dedup and the console are measured.
type OperateOptions struct {
	Records int // in the table
	Runs    int // of each question
	// Program is the command dedup. Empty means that it is built.
	Program string
}

// OperateCommand returns the command `operate`.
func OperateCommand() *cobra.Command {
	o := OperateOptions{Records: 20_000_000, Runs: 200}
	cmd := &cobra.Command{
		Use:   "operate",
		Short: "Measure the command dedup and the pages of the console on a large table",
		Long: `Fill a table with the records that the library would write, all of one tool in
one scope, and ask what operators ask: by the command dedup, which starts and connects
for each question, and by the pages of the console, in this process. Each question is
about another record, drawn at random. What the tables were read for is counted by the
server. The full form needs 8 GB of disk, in the folder that TMPDIR names.`,
	}
	cmd.Flags().IntVar(&o.Records, "records", o.Records, "records in the table")
	cmd.Flags().IntVar(&o.Runs, "runs", o.Runs, "how often each question is asked")
	cmd.Flags().StringVar(&o.Program, "program", "", "the command dedup (default: built from this checkout)")
	counts := func() []int { return []int{o.Records, o.Runs} }
	return command(cmd, counts, func(ctx context.Context, b *bed.Bed) error {
		_, err := operate(ctx, b, o)
		return err
	})
}

// asked is what a question cost: its time, and what the tables were read for.
type asked struct {
	what  string
	took  measure.Latency
	scans scans
}

func operate(ctx context.Context, b *bed.Bed, o OperateOptions) (all []asked, err error) {
	if o.Program == "" {
		dir, err := os.MkdirTemp("", "dedup-operate-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.Program = filepath.Join(dir, "dedup")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.Program, "github.com/tooldedup/dedup/cmd/dedup")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the command: %w: %s", err, out)
		}
	}
	site, err := filled(ctx, b, fresh(OrderedKeys, o.Records))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.Drop(ctx)) }()
	keys, err := operated(ctx, site, o)
	if err != nil {
		return nil, fmt.Errorf("writing what stands beside the records: %w", err)
	}
	// What was scanned to fill the tables is counted when the sessions that did have ended.
	site.Close()
	url := site.URL()
	counting, err := way.Pool(ctx, url, 1)
	if err != nil {
		return nil, err
	}
	defer counting.Close()

	fmt.Fprintf(b.Out, `
%s records of one tool; each question %d times, about records drawn at random. A command starts and connects each
time, and the first one asks nothing. A page is made by a new console on warm connections. Scans and rows are a question's.

`, measure.Text(o.Records), o.Runs)
	t := measure.NewTable(b.Out, "question", "p50", "p99, < 50 ms", "tool_dedup: seq. scans, 0", "index scans", "rows",
		"others: seq. scans")
	each := func(count int64) float64 { return float64(count) / float64(o.Runs) }
	for _, q := range questions {
		before, err := scanned(ctx, counting)
		if err != nil {
			return nil, err
		}
		took, err := q.ask(ctx, url, o, keys)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
		after, err := scanned(ctx, counting)
		if err != nil {
			return nil, err
		}
		s := scans{
			after.sequential - before.sequential, after.index - before.index,
			after.rows - before.rows, after.others - before.others,
		}
		all = append(all, asked{q.what, took, s})
		t.Row(q.what, took.P50, took.P99, each(s.sequential), each(s.index), each(s.rows), each(s.others))
	}
	t.Flush()
	return all, nil
}

// scans are what the tables were read for.
type scans struct{ sequential, index, rows, others int64 }

// scanned reads the server's counts. A session adds its own at the latest when it ends.
func scanned(ctx context.Context, pool *pgxpool.Pool) (s scans, err error) {
	for left := 1; left > 0; {
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&left); err != nil {
			return s, err
		}
		if err := measure.Wait(ctx, 10*time.Millisecond); err != nil {
			return s, err
		}
	}
	err = pool.QueryRow(ctx, `
		SELECT sum(seq_scan) FILTER (WHERE own), sum(idx_scan) FILTER (WHERE own),
		       sum(seq_tup_read + idx_tup_fetch) FILTER (WHERE own), sum(seq_scan) FILTER (WHERE NOT own)
		  FROM (SELECT *, relname = 'tool_dedup' AS own FROM pg_stat_user_tables
		         WHERE relname LIKE 'tool%') AS tables`).Scan(&s.sequential, &s.index, &s.rows, &s.others)
	return s, err
}
