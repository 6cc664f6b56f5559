package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// limit ends a test that hangs, long before the test binary's timeout.
const limit = 2 * time.Minute

// TestService builds the service once. Each test runs it as a process.
func TestService(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "helpdesk")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	for name, test := range map[string]func(*testing.T, *desk){
		"Answers":          testAnswers,
		"Mails":            testMails,
		"FailedRows":       testFailedRows,
		"Readme":           testReadme,
		"KilledInEffect":   testKilledInEffect,
		"KilledInCommit":   testKilledInCommit,
		"KilledInImport":   testKilledInImport,
		"Stops":            testStops,
		"StopsImport":      testStopsImport,
		"StartsTogether":   testStartsTogether,
		"TokensAreMissing": testTokensAreMissing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newDesk(t, program))
		})
	}
}

// desk is a test's own database and the service that works with it.
type desk struct {
	program, url string
	conn         *pgx.Conn
}

func newDesk(t *testing.T, program string) *desk {
	t.Helper()
	d := &desk{program: program, url: pgtest.NewEmpty(t).URL}
	d.conn = d.connect(t)
	return d
}

func (d *desk) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func (d *desk) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := d.conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func (d *desk) count(t *testing.T, sql string) (n int) {
	t.Helper()
	require.NoError(t, d.conn.QueryRow(t.Context(), sql).Scan(&n), sql)
	return n
}

// hold keeps a statement's locks until release is called.
func (d *desk) hold(t *testing.T, sql string) (release func()) {
	t.Helper()
	tx, err := d.connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// held waits until the service waits for a lock in the database.
func (d *desk) held(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return d.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, limit, 2*time.Millisecond)
}

// instance is one process of the service.
type instance struct {
	cmd    *exec.Cmd
	lines  chan string // of its log, until it ends
	addr   string
	client *http.Client
}

func (d *desk) start(t *testing.T) *instance {
	t.Helper()
	i := d.launch(t, "HELPDESK_TOKENS=t0ken=acme,other=globex")
	i.addr = i.logged(t, "listening")["addr"].(string)
	return i
}

func (d *desk) launch(t *testing.T, env ...string) *instance {
	t.Helper()
	i := &instance{cmd: exec.Command(d.program), lines: make(chan string, 1000), client: &http.Client{Transport: &http.Transport{}, Timeout: limit}}
	i.cmd.Env = append(append(os.Environ(), "DATABASE_URL="+d.url, "HELPDESK_ADDR=127.0.0.1:0"), env...)
	stderr, err := i.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, i.cmd.Start())
	go func() {
		defer close(i.lines)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			i.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		i.client.CloseIdleConnections()
		i.kill()
	})
	return i
}

// logged waits for a line of the log.
func (i *instance) logged(t *testing.T, msg string) (line map[string]any) {
	t.Helper()
	var before []string
	for {
		select {
		case text, ok := <-i.lines:
			require.Truef(t, ok, "ended without %q:\n%s", msg, strings.Join(before, "\n"))
			line = nil
			require.NoError(t, json.Unmarshal([]byte(text), &line), text)
			if line["msg"] == msg {
				return line
			}
			before = append(before, text)
		case <-time.After(limit):
			require.Failf(t, "timed out", "waiting for %q:\n%s", msg, strings.Join(before, "\n"))
		}
	}
}

func (i *instance) kill() {
	_ = i.cmd.Process.Kill() // SIGKILL
	for range i.lines {      // until it ends: Wait closes the pipe
	}
	_ = i.cmd.Wait()
}

func (i *instance) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, i.cmd.Process.Signal(syscall.SIGTERM))
}

// ended waits until the process ends.
func (i *instance) ended(t *testing.T) (code int) {
	t.Helper()
	for range i.lines {
	}
	_ = i.cmd.Wait()
	return i.cmd.ProcessState.ExitCode()
}

type answer struct {
	status   int
	replayed bool
	body     string
}

// send sends a request. The host does not depend on the instance's address, as behind a service's
// name.
func (i *instance) send(ctx context.Context, token, method, path, key, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+i.addr+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Host = "helpdesk.example"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	res, err := i.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header.Get("Idempotency-Replayed") == "true", strings.TrimSpace(string(text))}, err
}

func (i *instance) do(t *testing.T, method, path, key, body string) answer {
	t.Helper()
	got, err := i.send(t.Context(), "t0ken", method, path, key, body)
	require.NoError(t, err)
	return got
}

// sent is a request that is running.
type sent struct {
	answer answer
	err    error
}

func (i *instance) begin(t *testing.T, method, path, key, body string) <-chan sent {
	done := make(chan sent, 1)
	go func() {
		got, err := i.send(t.Context(), "t0ken", method, path, key, body)
		done <- sent{got, err}
	}()
	return done
}

func wait[T any](t *testing.T, signal <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-signal:
	case <-time.After(limit):
		require.Fail(t, "a signal did not come")
	}
	return value
}
