package contract_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
)

// Real errors that look like faults of the server or of the way to it, and are the effect's own:
// another run meets them again, or does again what another service has done.

// functionWays call a function in each way. They return the error and the number of runs.
var functionWays = map[string]func(ctx context.Context, f *fixture, c dedup.Call, fn func(pgx.Tx) error) error{
	"Do": func(ctx context.Context, f *fixture, c dedup.Call, fn func(pgx.Tx) error) error {
		_, err := dedup.Do(ctx, f.d, c, func(_ context.Context, tx pgx.Tx) (int, error) { return 0, fn(tx) })
		return err
	},
	"DoTx": func(ctx context.Context, f *fixture, c dedup.Call, fn func(pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, f.d, tx, c, func(_ context.Context, tx pgx.Tx) (int, error) { return 0, fn(tx) })
			return err
		})
	},
	"BeginFunc": func(ctx context.Context, f *fixture, _ dedup.Call, fn func(pgx.Tx) error) error {
		return f.d.BeginFunc(ctx, fn)
	},
	"sqldedup": func(ctx context.Context, f *fixture, c dedup.Call, fn func(pgx.Tx) error) error {
		_, err := dedup.Do(ctx, f.d, c, sqldedup.Effect(func(_ context.Context, handed *sql.Tx) (int, error) { return 0, fn(sqlTx{handed: handed}) }))
		return err
	},
}

// TestLimitsAndNULs: a limit that somebody set and a text that PostgreSQL cannot read are of the
// classes of outages, and end the call at once. The server raises each.
func TestLimitsAndNULs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    pgx.QueryExecMode
		sql     string
		args    []any
		state   string
		configs []func(*pgxpool.Config)
	}{
		"NULInAnArgument": {pgx.QueryExecModeSimpleProtocol, `SELECT length($1) AS id`, []any{"a\x00b"}, "08P01", nil},
		"NULInSimpleSQL":  {pgx.QueryExecModeSimpleProtocol, "SELECT 1 AS id\x00", nil, "08P01", nil},
		"NULInSQL":        {pgx.QueryExecModeCacheStatement, "SELECT 1 AS id\x00", nil, "08P01", nil},
		"TempFileLimit": {
			pgx.QueryExecModeCacheStatement, `SELECT count(*) AS id FROM (SELECT g FROM generate_series(1, 50000) g ORDER BY -g) sorted`, nil, "53400",
			[]func(*pgxpool.Config){func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["temp_file_limit"], config.ConnConfig.RuntimeParams["work_mem"] = "0", "64"
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{isolation: pgx.ReadCommitted, mode: c.mode}.setup(t, &dedup.Options{Retry: quickRetry}, c.configs...)
			requireOwn := func(way string, runs int, err error) {
				t.Helper()
				requireState(t, err, c.state)
				require.NotErrorIs(t, err, dedup.ErrAttemptsExhausted, way)
				require.False(t, dedup.IsRetryable(err), way)
				require.Equal(t, 1, runs, way)
			}
			for way, do := range functionWays {
				runs := 0
				err := do(ctx, f, call(way), func(tx pgx.Tx) error {
					runs++
					_, err := tx.Exec(ctx, c.sql, c.args...)
					return err
				})
				requireOwn(way, runs, err)
			}
			if strings.Contains(c.sql, "\x00") {
				return // DoStatement refuses it
			}
			result, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), dedup.SQL(c.sql, c.args...))
			require.LessOrEqual(t, result.Attempts, 2, "once with the look-up, and once alone if that could not be sent")
			requireOwn("DoStatement", 1, err)
			require.Zero(t, f.records(t))
		})
	}
}

// TestServiceHangsUp: a service that takes a request and hangs up gets no second one. With
// StoreErrors that is the call's answer.
func TestServiceHangsUp(t *testing.T) {
	t.Parallel()
	ctx, f := plain.setup(t, &dedup.Options{Retry: quickRetry})
	for name, hangUp := range map[string]struct {
		by   func(conn *net.TCPConn) error
		want error
	}{
		"Closes": {func(*net.TCPConn) error { return nil }, io.EOF},
		"Resets": {func(conn *net.TCPConn) error { return conn.SetLinger(0) }, syscall.ECONNRESET},
		"BreaksOff": {func(conn *net.TCPConn) error {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
			return err
		}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var charges atomic.Int32
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				charges.Add(1)
				conn, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					err = errors.Join(hangUp.by(conn.(*net.TCPConn)), conn.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}))
			defer service.Close()
			charge := func(pgx.Tx) error {
				response, err := service.Client().Post(service.URL, "text/plain", strings.NewReader("9.99"))
				if err == nil {
					defer func() { _ = response.Body.Close() }()
					_, err = io.ReadAll(response.Body)
				}
				return err
			}
			for way, do := range functionWays {
				c := call(name + way)
				require.ErrorIs(t, do(ctx, f, c, charge), hangUp.want, way)
				require.EqualValues(t, 1, charges.Swap(0), way)
				if way == "BeginFunc" || way == "DoTx" { // a refusal rolls the test's transaction back
					continue
				}
				c.StoreErrors = true
				for range 2 {
					err := do(ctx, f, c, charge)
					require.ErrorIs(t, err, dedup.ErrRefused, way)
				}
				require.EqualValues(t, 1, charges.Swap(0), way)
			}
		})
	}
}
