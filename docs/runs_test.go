package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// runsFile is the program that runs the fragments which make calls: what they may use, with bodies.
// It runs the fragment that its argument names.
const runsFile = `package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
)

var _, _, _ = errors.As, fmt.Errorf, slog.String

type Ticket struct { ID int; Title string }

type Queries struct { tx pgx.Tx }
func (*Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{tx} }
func (q *Queries) CreateTicket(ctx context.Context, title string) (t Ticket, err error) {
	return t, q.tx.QueryRow(ctx, "INSERT INTO tickets (title) VALUES ($1) RETURNING id, title", title).Scan(&t.ID, &t.Title)
}

var (
	d       *dedup.Deduper
	queries *Queries
	logger  = slog.Default()

	call   = dedup.Call{Scope: "acme", Tool: "create_ticket", Key: "one intent", Args: "printer"}
	in     = struct { Title string }{"printer"}
	lines  = []struct { ID, Title string }{{"1", "printer"}, {"2", "door"}}
	effect = func(ctx context.Context, tx pgx.Tx) (Ticket, error) { return queries.WithTx(tx).CreateTicket(ctx, in.Title) }
)

func reply(Ticket) error { return nil }
func replyRefusal(code, message string) error { return nil }
func retryLater(dedup.Call) error { return nil }
func reject(error) error { return nil }
func enqueueMail(ctx context.Context, tx pgx.Tx, t Ticket) error {
	_, err := tx.Exec(ctx, "INSERT INTO mails (ticket) VALUES ($1)", t.ID)
	return err
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if d, err = dedup.New(pool, nil); err != nil {
		log.Fatal(err)
	}
	if err = fragments[os.Args[1]](ctx); err != nil {
		log.Fatal(err)
	}
}

var fragments = map[string]func(context.Context) error{
`

// makesCall is what a fragment contains that makes a call.
var makesCall = regexp.MustCompile(`dedup\.(Do|DoTx|DoStatement|DoBatch)\b|BeginFunc\(`)

// notRun are the documents whose fragments are not run here, and why.
var notRun = map[string]string{
	"docs/external.md":   "they need a provider; package external's examples run",
	"docs/operations.md": "they need a table of the application's own; its call has all writes in its effect",
}

// TestFragmentsRunThrice runs every fragment of the documents that makes calls three times, as a
// caller does that retries: nothing is written by the second and third run. The last one writes
// beside its call, and is found.
func TestFragmentsRunThrice(t *testing.T) {
	t.Parallel()

	const control = `
_, err = dedup.Do(ctx, d, call, effect)
if err != nil {
	return err
}
return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error { return enqueueMail(ctx, tx, Ticket{}) })
`
	var names []string
	source := runsFile
	add := func(s snippet, name string) {
		names = append(names, name)
		source += fmt.Sprintf("%q: func(ctx context.Context) (err error) {\n{\n//line %s:%d\n%s\n//line end.go:1\n}\nreturn nil\n},\n", name, s.file, s.line, s.text)
	}
	for _, file := range documents(t) {
		for _, s := range snippets(t, file) {
			if s.language == "go" && !s.isProgram() && !s.declares() && makesCall.MatchString(s.text) && notRun[file] == "" {
				add(s, fmt.Sprintf("%s:%d", s.file, s.line))
			}
		}
	}
	require.Greater(t, len(names), 3, "fragments that make calls")
	add(snippet{file: "control.go", line: 1, text: control}, "control")
	program := build(t, "fragmentsprogram", source+"}\n")

	db := pgtest.New(t)
	pool := db.Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text); CREATE TABLE mails (ticket int)`)
	require.NoError(t, err)
	for _, name := range names {
		_, err := pool.Exec(t.Context(), `TRUNCATE tickets, mails, tool_dedup`)
		require.NoError(t, err)
		var rows [3]int
		for n := range rows {
			run := exec.CommandContext(t.Context(), program, name)
			run.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			rows[n] = rowsOf(t, pool)
		}
		if name == "control" {
			require.Equal(t, [3]int{2, 3, 4}, rows)
			continue
		}
		require.Equal(t, [3]int{rows[0], rows[0], rows[0]}, rows, "%s writes beside its call", name)
		require.Equal(t, strings.HasPrefix(name, "docs/operations.md"), rows[0] == 0, "%s: rows", name)
	}
}

// rowsOf counts the rows of all tables but the library's own.
func rowsOf(t *testing.T, pool *pgxpool.Pool) (rows int) {
	t.Helper()
	tables, _ := pool.Query(t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`) // CollectRows has its error
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	require.NoError(t, err)
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "tool_") || strings.HasPrefix(name, "goose_") }) {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{name}.Sanitize()).Scan(&n))
		rows += n
	}
	return rows
}

// build compiles a program as a package of this module that only the overlay knows, so that it
// imports this very checkout. It returns the file to run.
func build(t *testing.T, name, source string) (program string) {
	t.Helper()
	dir := t.TempDir()
	main, overlay, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(main, []byte(source), 0o600))
	root, err := os.Getwd()
	require.NoError(t, err)
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, name, "main.go"): main}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, files, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}
