package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// OperateOptions say how the command dedup and the console are measured.
type OperateOptions struct {
	Records int // in the table
	Runs    int // of each question
	// Program is the command dedup. Empty means that it is built.
	Program string
}

// asked is what a question cost.
type asked struct {
	what  string
	took  measure.Latency
	scans scans
}

// OperateCommand returns the command `operate`.
func OperateCommand() *cobra.Command {
	o := OperateOptions{Records: 20_000_000, Runs: 200}
	cmd := &cobra.Command{
		Use:   "operate",
		Short: "Measure the command dedup and the pages of the console on a large table",
		Long: `Fill a table by COPY with the records that the library would write, all of one tool in
one scope, and ask what operators ask: by the command dedup, which starts and connects
for each question, and by the pages of the console, in this process. Each question is
about another record, drawn at random. What the tables were read for is counted by the
server. The full form needs 8 GB of disk, in the folder that TMPDIR names.`,
		PreRunE: func(*cobra.Command, []string) error {
			if min(o.Records, o.Runs) < 1 {
				return errors.New("--records, --runs: must be at least 1")
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&o.Records, "records", o.Records, "records in the table")
	cmd.Flags().IntVar(&o.Runs, "runs", o.Runs, "how often each question is asked")
	cmd.Flags().StringVar(&o.Program, "program", "", "the command dedup (default: built from this checkout)")
	return command(cmd, nil, func(ctx context.Context, s stand) error {
		all, err := operate(ctx, s, o)
		if err != nil {
			return err
		}
		writeAsked(s.out, o, all)
		return nil
	})
}

func operate(ctx context.Context, s stand, o OperateOptions) (_ []asked, err error) {
	counting := s.url
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
	if s.url, err = asker(s.url); err != nil {
		return nil, err
	}
	filling, err := server.Pool(ctx, s.url, 2)
	if err != nil {
		return nil, err
	}
	defer filling.Close()
	t, err := filled(ctx, filling, operatedSchema, OrderedKeys, o.Records)
	if err != nil {
		return nil, err
	}
	keys, err := t.operated(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("writing what stands beside the records: %w", err)
	}
	// What was scanned to fill the tables is counted when its sessions have ended.
	filling.Close()
	if t.pool, err = server.Pool(ctx, counting, 1); err != nil {
		return nil, err
	}
	defer t.pool.Close()
	s.say("%s records and what stands beside them", figure.Thousands(o.Records))
	return t.ask(ctx, s, o, questions(o, keys))
}

func writeAsked(w io.Writer, o OperateOptions, all []asked) {
	fmt.Fprintf(w, `
%s records of one tool; each question %d times, about records drawn at random. A command starts and connects each
time, and the first one asks nothing. A page is made by a new console on warm connections. Scans and rows are a question's.

`, figure.Thousands(o.Records), o.Runs)
	t := figure.NewTable("question", "p50", "p99, < 50 ms", "tool_dedup: seq. scans, 0", "index scans", "rows", "others: seq. scans")
	for _, a := range all {
		t.Row(a.what, a.took.P50, a.took.P99, a.scans.of(a.scans.sequential, o.Runs), a.scans.of(a.scans.index, o.Runs),
			a.scans.of(a.scans.rows, o.Runs), a.scans.of(a.scans.others, o.Runs))
	}
	t.Write(w)
}
