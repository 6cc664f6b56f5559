package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/calls"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// outcome is how the program ended.
type outcome struct {
	code        int
	out, errOut string
}

// run runs dedup.
func run(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := cli.Run(ctx, args, cli.Streams{Out: &out, Err: &errOut},
		calls.Attention(), calls.List(), calls.Show(), calls.Reset(), calls.Erase(), calls.Export(), calls.Audit(), calls.Stats(), calls.Parked(), calls.Resolve(), calls.Key())
	return outcome{code, out.String(), errOut.String()}
}

// bundle is a database, and a process that calls tools.
type bundle struct {
	db   *pgtest.DB
	pool *pgxpool.Pool
	d    *dedup.Deduper
}

func setup(t *testing.T, opts *dedup.Options) *bundle {
	t.Helper()
	return setupIn(t, pgtest.New(t), opts)
}

// setupOn is setup on a database that says on which engine it is.
func setupOn(t *testing.T, engine string) *bundle {
	t.Helper()
	db := pgtest.New(t)
	db.PlayEngine(t, engine)
	return setupIn(t, db, nil)
}

func setupIn(t *testing.T, db *pgtest.DB, opts *dedup.Options) *bundle {
	t.Helper()
	b := &bundle{db: db}
	b.pool = b.db.Pool(t)
	var err error
	b.d, err = dedup.New(b.pool, opts)
	require.NoError(t, err)
	return b
}

func (b *bundle) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// dedup runs the program on the test's database.
func (b *bundle) dedup(t *testing.T, args ...string) outcome {
	t.Helper()
	return run(t.Context(), append(args, "--database-url", b.db.URL)...)
}

// fine runs the program with --json, requires that it ends with a code, and reads its lines.
func fine[T any](t *testing.T, b *bundle, code int, args ...string) []T {
	t.Helper()
	got := b.dedup(t, append(args, "--json")...)
	require.Equal(t, code, got.code, got.errOut)
	lines := []T{}
	for line := range strings.Lines(got.out) {
		var one T
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		lines = append(lines, one)
	}
	return lines
}

// do makes a call whose result has a secret.
func (b *bundle) do(t *testing.T, key string) dedup.Result[string] {
	t.Helper()
	result, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: "acme", Tool: "refund", Key: key}, func(context.Context, pgx.Tx) (string, error) {
		return "hunter2", nil
	})
	require.NoError(t, err)
	return result
}

func (b *bundle) refuse(t *testing.T, key string) {
	t.Helper()
	_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: "acme", Tool: "refund", Key: key}, func(context.Context, pgx.Tx) (string, error) {
		return "", dedup.Final(fmt.Errorf("hunter2 declined"))
	})
	require.ErrorIs(t, err, dedup.ErrRefused)
}

// doBroken makes a call whose effect ends its own transaction.
func (b *bundle) doBroken(t *testing.T, key string) {
	t.Helper()
	_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: "acme", Tool: "refund", Key: key}, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return "", err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
}

// hold begins a call and returns when it is in its effect. release ends it.
func (b *bundle) hold(t *testing.T, key string) (release func()) {
	t.Helper()
	entered, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: "acme", Tool: "refund", Key: key}, func(ctx context.Context, tx pgx.Tx) (string, error) {
			_, err := tx.Exec(ctx, "SELECT 'account-4711'")
			close(entered)
			<-leave
			return "late", err
		})
		ended <- err
	}()
	<-entered
	return func() {
		close(leave)
		require.NoError(t, <-ended)
	}
}
