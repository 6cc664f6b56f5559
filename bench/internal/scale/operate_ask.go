package scale

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/server"
	"github.com/tooldedup/dedup/dedupweb"
)

// question is what is asked, so that each run is about another record.
type question struct {
	what string
	// args are the command's, or page is the console's.
	args func(run int) []string
	page func(run int) string
	// found is the exit code of the command where it finds what it looks for.
	found int
}

// asking is the application_name of what fills the tables and asks.
const asking = "operate"

func questions(o OperateOptions, keys []string) []question {
	key := func(run int) string { return keys[run%len(keys)] }
	always := func(args ...string) func(int) []string { return func(int) []string { return args } }
	list := []string{"list", "--scope", operatedScope, "--tool", operatedTool}
	show := func(key string) []string { return []string{"show", operatedScope, operatedTool, key} }
	of := url.Values{"scope": {operatedScope}, "tool": {operatedTool}}.Encode()
	page := func(name string) func(int) string { return func(int) string { return name } }
	return []question{
		{what: "dedup version", args: always("version")},
		{what: "dedup list", args: always(list...)},
		{what: "dedup list --after", args: func(run int) []string { return append(list[:5:5], "--after", cursor(key(run))) }},
		{what: "dedup list --outcome broken", args: always(append(list[:5:5], "--outcome", "broken")...)},
		{what: "dedup show", args: func(run int) []string { return show(key(run)) }},
		{what: "dedup show, no such key", args: func(run int) []string { return show(key(run) + "-") }},
		{what: "dedup attention", args: always("attention"), found: 1},
		{what: "dedup audit", args: always("audit")},
		{what: "dedup parked", args: always("parked")},
		{what: "dedup stats", args: always("stats")},

		{what: "page overview", page: page("/")},
		{what: "page inflight", page: page("/inflight")},
		{what: "page attention", page: page("/attention")},
		{what: "page records, opened", page: page("/records")},
		{what: "page records, of a tool", page: page("/records?tool=" + operatedTool)},
		{what: "page records", page: page("/records?" + of)},
		{what: "page records, after a key", page: func(run int) string { return "/records?" + of + "&after=" + url.QueryEscape(key(run)) }},
		{what: "page records, broken", page: page("/records?" + of + "&outcome=broken")},
		{what: "page call", page: func(run int) string { return "/call?" + of + "&key=" + url.QueryEscape(key(run)) }},
		{what: "page audit", page: page("/audit")},
	}
}

// cursor is what `dedup list --after` takes for a key.
func cursor(key string) string {
	text, _ := json.Marshal(struct{ Key string }{key}) // a string can be encoded
	return base64.RawURLEncoding.EncodeToString(text)
}

// asker is a URL with the name of what asks.
func asker(of string) (string, error) {
	named, err := url.Parse(of)
	if err != nil {
		return "", err
	}
	query := named.Query()
	query.Set("application_name", asking)
	named.RawQuery = query.Encode()
	return named.String(), nil
}

func (t *tool) ask(ctx context.Context, s stand, o OperateOptions, all []question) ([]asked, error) {
	var answers []asked
	for _, q := range all {
		before, err := t.scanned(ctx)
		if err != nil {
			return nil, err
		}
		took, err := q.ask(ctx, s.url, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
		after, err := t.scanned(ctx)
		if err != nil {
			return nil, err
		}
		answers = append(answers, asked{q.what, took.Latency(), after.since(before)})
	}
	return answers, nil
}

func (q *question) ask(ctx context.Context, url string, o OperateOptions) (measure.Sample, error) {
	run := 0
	if q.args != nil {
		return measure.Load{Clients: 1, MinOps: o.Runs}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
			run++
			return 1, commanded(ctx, o.Program, url, q.args(run), q.found)
		})
	}
	pool, err := server.Pool(ctx, url, 2)
	if err != nil {
		return measure.Sample{}, err
	}
	defer pool.Close()
	return measure.Load{Clients: 1, MinOps: o.Runs}.Run(ctx, func(ctx context.Context, _ int) (int, error) {
		run++
		return 1, shown(ctx, pool, q.page(run))
	})
}

// commanded runs the command, which has to end with one of two exit codes: 0, or that of what it finds.
func commanded(ctx context.Context, program, url string, args []string, found int) error {
	cmd := exec.CommandContext(ctx, program, args...)
	if args[0] != "version" {
		cmd.Args = append(cmd.Args, "--schema", operatedSchema)
	}
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
	d, err := dedup.New(pool, &dedup.Options{Schema: operatedSchema})
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

// scans are what the tables were read for.
type scans struct{ sequential, index, rows, others int64 }

func (s scans) since(before scans) scans {
	return scans{s.sequential - before.sequential, s.index - before.index, s.rows - before.rows, s.others - before.others}
}

// of is a count divided by the runs.
func (scans) of(count int64, runs int) float64 { return ratio(float64(count), float64(runs)) }

// scanned reads the server's counts. A session adds its own at the latest when it ends.
func (t *tool) scanned(ctx context.Context) (s scans, err error) {
	for left := 1; left > 0; {
		if err := t.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", asking).Scan(&left); err != nil {
			return s, err
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return s, err
		}
	}
	err = t.pool.QueryRow(ctx, `
		SELECT sum(seq_scan) FILTER (WHERE own), sum(idx_scan) FILTER (WHERE own),
		       sum(seq_tup_read + idx_tup_fetch) FILTER (WHERE own), sum(seq_scan) FILTER (WHERE NOT own)
		  FROM (SELECT *, relname = 'tool_dedup' AS own FROM pg_stat_user_tables
		         WHERE schemaname = $1 AND relname LIKE 'tool%') AS tables`, t.schema).Scan(&s.sequential, &s.index, &s.rows, &s.others)
	return s, err
}
