package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// worker runs tests on a server of its own, so that it can sweep up what failed
// tests leave there without asking others.
type worker struct {
	root   string
	server *pgserver.Server
}

func newWorker(ctx context.Context, root string) (*worker, error) {
	server, err := pgserver.Start(ctx, &pgserver.Options{Private: true})
	return &worker{root: root, server: server}, err
}

// verdict is what came of running some tests.
type verdict struct {
	passed  bool
	failing []string // the tests that failed, or ran when the process ended
	output  string
}

var (
	failLine    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)`)
	runningLine = regexp.MustCompile(`(?m)^\t(\w+)\S* \(\S+\)$`) // after "panic: test timed out"
)

// run runs the tests against the change with this number.
func (w *worker) run(ctx context.Context, path string, id int, limit time.Duration, tests []string, flags ...string) (verdict, error) {
	ends, cancel := context.WithTimeout(ctx, limit+20*time.Second)
	defer cancel()
	args := append([]string{"-test.run", "^(" + strings.Join(tests, "|") + ")$", "-test.failfast", "-test.timeout", limit.String()}, flags...)
	cmd := exec.CommandContext(ends, path, args...)
	cmd.Dir = w.root
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantEnv, id), "DEDUP_DATABASE_URL="+w.server.URL)
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	v := verdict{passed: err == nil, output: string(output)}
	if v.passed {
		if strings.Contains(v.output, "no tests to run") {
			return v, fmt.Errorf("none of the tests %v is there", tests)
		}
		return v, nil
	}
	for _, pattern := range []*regexp.Regexp{failLine, runningLine} {
		for _, match := range pattern.FindAllStringSubmatch(v.output, -1) {
			if slices.Contains(tests, match[1]) && !slices.Contains(v.failing, match[1]) {
				v.failing = append(v.failing, match[1])
			}
		}
	}
	if len(v.failing) == 0 { // a panic on a goroutine of its own, or TestMain's objection
		v.failing = tests
	}
	return v, w.sweep(ctx)
}

// sweep drops the databases that failed tests have left.
func (w *worker) sweep(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, w.server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'dedup\_test\_%'`)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	return nil
}
