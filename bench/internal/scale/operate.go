package scale

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/dedupweb"
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
		Long: `Fill a table by COPY with the records that the library would write, all of one tool in
one scope, and ask what operators ask: by the command dedup, which starts and connects
for each question, and by the pages of the console, in this process. Each question is
about another record, drawn at random. What the tables were read for is counted by the
server. The full form needs 8 GB of disk, in the folder that TMPDIR names.`,
	}
	cmd.Flags().IntVar(&o.Records, "records", o.Records, "records in the table")
	cmd.Flags().IntVar(&o.Runs, "runs", o.Runs, "how often each question is asked")
	cmd.Flags().StringVar(&o.Program, "program", "", "the command dedup (default: built from this checkout)")
	return command(cmd, func() []int { return []int{o.Records, o.Runs} }, func(ctx context.Context, s stand) error {
		_, err := operate(ctx, s, o)
		return err
	})
}

// asked is what a question cost: its time, and what the tables were read for.
type asked struct {
	what  string
	took  measure.Latency
	scans scans
}

func operate(ctx context.Context, s stand, o OperateOptions) (all []asked, err error) {
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
	site, err := s.filled(ctx, fresh(OrderedKeys, o.Records))
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
	counting, err := way.Pool(ctx, site.Env(1, bed.Line{}).Postgres, 1)
	if err != nil {
		return nil, err
	}
	defer counting.Close()

	fmt.Fprintf(s.out, `
%s records of one tool; each question %d times, about records drawn at random. A command starts and connects each
time, and the first one asks nothing. A page is made by a new console on warm connections. Scans and rows are a question's.

`, measure.Text(o.Records), o.Runs)
	t := measure.NewTable(s.out, "question", "p50", "p99, < 50 ms", "tool_dedup: seq. scans, 0", "index scans", "rows",
		"others: seq. scans")
	each := func(count int64) float64 { return float64(count) / float64(o.Runs) }
	for _, q := range questions(keys) {
		a := asked{what: q.what}
		before, err := scanned(ctx, counting)
		if err != nil {
			return nil, err
		}
		if a.took, err = q.ask(ctx, site.Env(1, bed.Line{}).Postgres, o); err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
		after, err := scanned(ctx, counting)
		if err != nil {
			return nil, err
		}
		a.scans = scans{
			after.sequential - before.sequential, after.index - before.index,
			after.rows - before.rows, after.others - before.others,
		}
		all = append(all, a)
		t.Row(a.what, a.took.P50, a.took.P99, each(a.scans.sequential), each(a.scans.index), each(a.scans.rows),
			each(a.scans.others))
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

// question is what is asked. It has the arguments of the command, or a page of the console;
// each run is about another key.
type question struct {
	what string
	args func(key string) []string
	page func(key string) string
	// found is the exit code of the command where it finds what it looks for.
	found int
	keys  []string
}

func questions(keys []string) []question {
	var all []question
	of := url.Values{"scope": {way.Scope}, "tool": {way.Tool}}.Encode()
	command := func(found int, what string, args func(key string) []string) {
		all = append(all, question{what: "dedup " + what, args: args, found: found, keys: keys})
	}
	plain := func(args ...string) func(string) []string { return func(string) []string { return args } }
	list := func(further ...string) []string {
		return append([]string{"list", "--scope", way.Scope, "--tool", way.Tool}, further...)
	}
	command(0, "version", plain("version"))
	command(0, "list", plain(list()...))
	command(0, "list --after", func(key string) []string { return list("--after", cursor(key)) })
	command(0, "list --outcome broken", plain(list("--outcome", "broken")...))
	command(0, "show", func(key string) []string { return []string{"show", way.Scope, way.Tool, key} })
	command(0, "show, no such key", func(key string) []string { return []string{"show", way.Scope, way.Tool, key + "-"} })
	command(1, "attention", plain("attention"))
	command(0, "audit", plain("audit"))
	command(0, "parked", plain("parked"))
	command(0, "stats", plain("stats"))

	page := func(what string, page func(key string) string) {
		all = append(all, question{what: "page " + what, page: page, keys: keys})
	}
	at := func(page string) func(string) string { return func(string) string { return page } }
	page("overview", at("/"))
	page("inflight", at("/inflight"))
	page("attention", at("/attention"))
	page("records, opened", at("/records"))
	page("records, of a tool", at("/records?tool="+way.Tool))
	page("records", at("/records?"+of))
	page("records, after a key", func(key string) string { return "/records?" + of + "&after=" + cursor(key) })
	page("records, broken", at("/records?"+of+"&outcome=broken"))
	page("call", func(key string) string { return "/call?" + of + "&key=" + url.QueryEscape(key) })
	page("audit", at("/audit"))
	return all
}

// cursor is what `dedup list --after` and the page of records take for a key.
func cursor(key string) string {
	text, _ := json.Marshal(struct{ Key string }{key}) // a string can be encoded
	return base64.RawURLEncoding.EncodeToString(text)
}

func (q *question) ask(ctx context.Context, url string, o OperateOptions) (measure.Latency, error) {
	ask := func(ctx context.Context, key string) error {
		return commanded(ctx, o.Program, url, q.args(key), q.found)
	}
	if q.page != nil {
		pool, err := way.Pool(ctx, url, 2)
		if err != nil {
			return measure.Latency{}, err
		}
		defer pool.Close()
		ask = func(ctx context.Context, key string) error { return shown(ctx, pool, q.page(key)) }
	}
	run := 0
	sample, err := measure.Load{Clients: 1, MinOps: o.Runs}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
		run++
		return 1, ask(ctx, q.keys[run%len(q.keys)])
	})
	return sample.Latency(), err
}

// commanded runs the command, which has to end with an exit code.
func commanded(ctx context.Context, program, url string, args []string, found int) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != found {
		return fmt.Errorf("exit code %d: %w: %s", code, err, out)
	}
	return nil
}

// shown makes a console, and a page of it. A console that was asked before would have the
// overview of a while ago.
func shown(ctx context.Context, pool *pgxpool.Pool, page string) error {
	d, err := dedup.New(pool, nil)
	if err != nil {
		return err
	}
	console, err := dedupweb.New(d, dedupweb.Options{Access: func(*http.Request) dedupweb.Access {
		return dedupweb.Access{Name: "ada", Keys: true, Results: true}
	}})
	if err != nil {
		return err
	}
	answer := httptest.NewRecorder()
	console.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, page, nil))
	if answer.Code != http.StatusOK || !bytes.Contains(answer.Body.Bytes(), []byte("</html>")) {
		return fmt.Errorf("%s: status %d: %s", page, answer.Code, answer.Body)
	}
	return nil
}
