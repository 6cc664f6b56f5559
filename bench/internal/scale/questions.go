package scale

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/dedupweb"
)

// question is asked with the arguments of the command dedup, or is a page of the console, which begins
// with a slash. KEY and CURSOR stand for a key, another one each time, and for the place behind it.
type question struct{ what, asks string }

var questions = []question{
	{"dedup version", "version"},
	{"dedup list", "list --scope acme --tool book"},
	{"dedup list --after", "list --scope acme --tool book --after CURSOR"},
	{"dedup list --outcome broken", "list --scope acme --tool book --outcome broken"},
	{"dedup show", "show acme book KEY"},
	{"dedup show, no such key", "show acme book KEY-"},
	{"dedup attention", "attention"},
	{"dedup audit", "audit"},
	{"dedup parked", "parked"},
	{"dedup stats", "stats"},
	{"page overview", "/"},
	{"page inflight", "/inflight"},
	{"page attention", "/attention"},
	{"page records, opened", "/records"},
	{"page records, of a tool", "/records?tool=book"},
	{"page records", "/records?scope=acme&tool=book"},
	{"page records, after a key", "/records?scope=acme&tool=book&after=CURSOR"},
	{"page records, broken", "/records?scope=acme&tool=book&outcome=broken"},
	{"page call", "/call?scope=acme&tool=book&key=KEY"},
	{"page audit", "/audit"},
}

// found is the exit code of the command where it finds what it looks for.
func (q question) found() int {
	if q.asks == "attention" {
		return 1
	}
	return 0
}

// ask asks about one key after the other.
func (q question) ask(ctx context.Context, url string, o OperateOptions, keys []string) (measure.Latency, error) {
	ask := func(asks string) error { return q.command(ctx, o.Program, url, strings.Fields(asks)) }
	if strings.HasPrefix(q.asks, "/") {
		pool, err := way.Pool(ctx, url, 2)
		if err != nil {
			return measure.Latency{}, err
		}
		defer pool.Close()
		ask = func(page string) error { return show(ctx, pool, page) }
	}
	run := 0
	sample, err := measure.Load{Clients: 1, MinOps: o.Runs}.Run(ctx, func(context.Context, int) (int, error) {
		key := keys[run%len(keys)]
		run++
		cursor, err := json.Marshal(struct{ List, Key string }{"records", key}) // as `dedup list --after` takes it
		if err != nil {
			return 0, err
		}
		place := base64.RawURLEncoding.EncodeToString(cursor)
		return 1, ask(strings.NewReplacer("KEY", key, "CURSOR", place).Replace(q.asks))
	})
	return sample.Latency(), err
}

// command runs the command.
func (q question) command(ctx context.Context, program, url string, args []string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != q.found() {
		return fmt.Errorf("exit code %d: %w: %s", code, err, out)
	}
	return nil
}

// show makes a console, and a page of it. A console that was asked before would have the
// overview of a while ago.
func show(ctx context.Context, pool *pgxpool.Pool, page string) error {
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

// operatedSQL writes what stands beside the records: for each of two keys a broken record, a
// line of the audit that says so, and an operation that is parked, among others that are not;
// and what ten processes have counted of ten tools in the last hour, and its sums of 14 days.
const operatedSQL = `
UPDATE tool_dedup SET outcome = 'broken', result = NULL WHERE scope = 'acme' AND tool = 'book' AND key = ANY (ARRAY(SELECT key FROM drawn OFFSET %[1]d));

INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
SELECT created_at, 'ada', 'app', action, scope, tool, key, outcome, created_at, 'the effect ended its own transaction'
  FROM tool_dedup, unnest(ARRAY['reset', 'broken', 'reset']) AS action
 WHERE scope = 'acme' AND tool = 'book' AND key = ANY (ARRAY(SELECT key FROM drawn OFFSET %[1]d));

INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
SELECT 'acme', 'book', 'op-' || n, CASE WHEN n %% 100 = 0 THEN 'parked' ELSE 'done' END, n, 1, true, ''::bytea, now(), now() - n * interval '1 second'
  FROM generate_series(1, 100 * %[1]d) AS n;

INSERT INTO tool_dedup_stat
SELECT now() - minute * interval '1 minute', 'instance-' || instance, 'tool-' || tool, outcome, 100, 1, 0
  FROM generate_series(1, 60) AS minute, generate_series(1, 10) AS instance, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome
 UNION ALL
SELECT now() - quarter * interval '15 minutes', '', 'tool-' || tool, outcome, 15000, 150, 0
  FROM generate_series(5, 14 * 24 * 4) AS quarter, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome;

VACUUM (ANALYZE) tool_dedup, tool_dedup_audit, tool_effect, tool_dedup_stat;
CHECKPOINT`

// operated writes what stands beside the records, and returns a key for each run. They are
// drawn at random, and so are as many others, whose records are broken.
func operated(ctx context.Context, site *bed.Site, o OperateOptions) ([]string, error) {
	// One in so many, so that no more rows are sorted than have to be.
	share := 4 * float64(o.Runs) / float64(o.Records)
	draw := fmt.Sprintf("CREATE TABLE drawn AS SELECT key FROM tool_dedup WHERE random() < %g ORDER BY random() LIMIT %d", share, 2*o.Runs)
	for statement := range strings.SplitSeq(draw+";\n"+fmt.Sprintf(operatedSQL, o.Runs), ";\n") {
		if _, err := site.Pools[0].Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	rows, _ := site.Pools[0].Query(ctx, "SELECT key FROM drawn LIMIT $1", o.Runs)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(keys) < o.Runs {
		err = fmt.Errorf("only %d keys of %d were drawn", len(keys), o.Records)
	}
	return keys, err
}
