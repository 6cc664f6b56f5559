package contract_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/migrations"
)

// secretPlaces are where a call can have a secret. Each call of TestLongSecrets has one in each.
var secretPlaces = []string{"key", "argument", "nested", "result"}

// secretScene is one way in which a call ends.
type secretScene struct {
	t      *testing.T
	name   string
	d      *dedup.Deduper
	server *pgxpool.Pool // not through proxy
	proxy  *faultproxy.Proxy
	log    *slog.Logger
	// kept is how long the answers are kept.
	kept dedup.Retention
}

// secretScenes are the ways in which a call ends.
var secretScenes = map[string]func(ctx context.Context, s secretScene){
	"Replayed": func(ctx context.Context, s secretScene) {
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		require.NoError(s.t, s.do(ctx, s.args(), nil))
	},
	"KeyReused": func(ctx context.Context, s secretScene) {
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		require.ErrorIs(s.t, s.do(ctx, s.otherArgs(), nil), dedup.ErrKeyReused)
	},
	"StatementFails": func(ctx context.Context, s secretScene) {
		requireState(s.t, s.do(ctx, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO no_such_table VALUES ($1)`, s.secret("argument"))
			return err
		}), "42P01")
	},
	"ResultIsNoJSON": func(ctx context.Context, s secretScene) {
		_, err := dedup.Do(ctx, s.d, s.call(s.args()), func(context.Context, pgx.Tx) (any, error) {
			return map[string]any{"secret": s.secret("result"), "broken": make(chan int)}, nil
		})
		s.saw(err)
		require.ErrorIs(s.t, err, dedup.ErrInvalid)
	},
	"CommitLost": func(ctx context.Context, s secretScene) {
		lost := s.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		require.Equal(s.t, 1, lost.Count())
	},
	"Statement": func(ctx context.Context, s secretScene) {
		for i, args := range []any{s.args(), s.args(), s.otherArgs()} {
			_, err := dedup.DoStatement[map[string]any](ctx, s.d, s.call(args), dedup.SQL(`SELECT $1::text AS secret`, s.secret("result")))
			s.saw(err)
			require.Equal(s.t, i == 2, err != nil)
		}
	},
	"Broken": func(ctx context.Context, s secretScene) {
		require.ErrorIs(s.t, s.do(ctx, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, `COMMIT`)
			return err
		}), dedup.ErrBroken)
	},
	"Twins": func(ctx context.Context, s secretScene) {
		var twins sync.WaitGroup
		for range 8 {
			twins.Go(func() { _ = s.do(ctx, s.args(), nil) })
		}
		twins.Wait()
	},
	"Cancelled": func(ctx context.Context, s secretScene) {
		calling, cancel := context.WithCancel(ctx)
		var canceller sync.WaitGroup
		canceller.Go(func() {
			defer cancel()
			for running := false; !running && ctx.Err() == nil; {
				_ = s.server.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg\_sleep%')`).Scan(&running)
			}
		})
		require.Error(s.t, s.do(calling, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(600), $1::text`, s.secret("argument"))
			return err
		}))
		canceller.Wait()
	},
	"NotKept": func(ctx context.Context, s secretScene) {
		s.kept.Result = -1
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		require.ErrorIs(s.t, s.do(ctx, s.args(), nil), dedup.ErrExpired)
	},
	"NotKeptStatements": func(ctx context.Context, s secretScene) {
		s.kept.Result = -1
		one := dedup.StatementCall{Call: s.call(s.args()), Statement: dedup.SQL(`SELECT $1::text AS secret`, s.secret("result"))}
		two := one
		two.Call.Key += "-2"
		for i := range 2 {
			for out := range dedup.DoBatch[map[string]any](ctx, s.d, slices.Values([]dedup.StatementCall{one, two}), nil) {
				s.saw(out.Err)
				require.Equal(s.t, i == 1, errors.Is(out.Err, dedup.ErrExpired))
			}
		}
	},
	"NotKeptRefused": func(ctx context.Context, s secretScene) {
		s.kept.Result = -1
		refuses := func(context.Context, pgx.Tx) error { return dedup.Final(errors.New(s.secret("result"))) }
		_, err := dedup.Do(ctx, s.d, s.call(s.args()), func(ctx context.Context, tx pgx.Tx) (int, error) { return 0, refuses(ctx, tx) })
		require.EqualError(s.t, err, s.secret("result")) // the caller's own answer, which the caller does not log
		require.ErrorIs(s.t, s.do(ctx, s.args(), refuses), dedup.ErrExpired)
	},
	"NotKeptCommitLost": func(ctx context.Context, s secretScene) {
		s.kept.Result = -1
		lost := s.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		require.Equal(s.t, 1, lost.Count())
	},
	"LookupAndReset": func(ctx context.Context, s secretScene) {
		require.NoError(s.t, s.do(ctx, s.args(), nil))
		c := s.call(nil)
		_, err := s.d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		require.NoError(s.t, err)
		_, err = s.d.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ChangeOptions{Reason: "wrong answer"})
		require.NoError(s.t, err)
	},
}

// secret is a word that is nowhere else.
func (s secretScene) secret(place string) string { return "canary-" + s.name + "-" + place }

func (s secretScene) args() any {
	return map[string]any{"plain": s.secret("argument"), "deep": map[string]any{"list": []string{s.secret("nested")}}}
}

func (s secretScene) otherArgs() any { return map[string]any{"plain": s.secret("argument") + "-other"} }

func (s secretScene) call(args any) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "create_ticket", Key: s.secret("key"), Args: args, Retention: s.kept}
}

// do makes a call and logs its error.
func (s secretScene) do(ctx context.Context, args any, then func(context.Context, pgx.Tx) error) error {
	_, err := dedup.Do(ctx, s.d, s.call(args), func(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
		if _, err := tx.Exec(ctx, effectSQL, "secret"); err != nil {
			return nil, err
		}
		if then != nil {
			if err := then(ctx, tx); err != nil {
				return nil, err
			}
		}
		return map[string]string{"secret": s.secret("result")}, nil
	})
	s.saw(err)
	return err
}

// saw logs an error as a caller does.
func (s secretScene) saw(err error) {
	if err != nil {
		s.log.Error(err.Error())
	}
}

// TestLongSecrets has secrets in keys, arguments and results. No error, no event and no line of the
// server's log has one. No table has an answer that is not kept. The search of the log finds a
// secret in the text of a statement without dedup, and the search of the tables a kept answer.
func TestLongSecrets(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := pgserver.Start(ctx, &pgserver.Options{Private: true, Settings: map[string]string{
		"logging_collector": "on", "log_directory": "log", "log_filename": "postgresql.log", "log_min_messages": "info", "log_error_verbosity": "verbose",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(ctx))) })
	proxy, err := faultproxy.New(server.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	open := func(url string) *pgxpool.Pool {
		pool, err := pgxpool.New(ctx, url)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	direct := open(server.URL)
	schema, err := migrations.SQL()
	require.NoError(t, err)
	_, err = direct.Exec(ctx, schema+";"+effectsTable, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)

	var heard bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&heard, &slog.HandlerOptions{Level: slog.LevelDebug - 10})) // it writes one line at a time
	d := newDeduper(t, open(proxy.URL()), &dedup.Options{Tracer: dedup.NewSlogTracer(log), Retry: quickRetry})
	var secrets []string
	for name, play := range secretScenes {
		s := secretScene{t: t, name: name, d: d, server: direct, proxy: proxy, log: log}
		play(ctx, s)
		for _, place := range secretPlaces {
			secrets = append(secrets, s.secret(place))
		}
	}
	const plain = "canary-without-dedup"
	_, err = direct.Exec(ctx, `INSERT INTO no_such_table VALUES ('`+plain+`')`)
	requireState(t, err, "42P01")

	written := serverLog(t, ctx, direct, server)
	require.Contains(t, written, plain)
	require.Contains(t, heard.String(), "tool_call_deduplicated")
	for _, secret := range secrets {
		require.NotContains(t, heard.String(), secret, "errors and events")
		require.NotContains(t, written, secret, "the server's log")
	}
	stored := tablesOf(t, ctx, direct)
	require.Contains(t, stored, "canary-Twins-result")
	for name := range secretScenes {
		if strings.HasPrefix(name, "NotKept") {
			require.Contains(t, stored, secretScene{name: name}.secret("key"))
			require.NotContains(t, stored, secretScene{name: name}.secret("result"), "the tables")
		}
	}
}

// tablesOf returns every row of the library's tables as text.
func tablesOf(t *testing.T, ctx context.Context, pool *pgxpool.Pool) string {
	t.Helper()
	rows, err := pool.Query(ctx, `SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'tool\_%'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, tables, "tool_dedup_audit")
	var all strings.Builder
	for _, table := range tables {
		rows, err := pool.Query(ctx, `SELECT row::text FROM `+table+` AS row`)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		all.WriteString(strings.Join(lines, "\n"))
	}
	return all.String()
}

// serverLog returns what the server has logged. The collector writes later than the sessions log:
// the log is complete when it has a line that is logged last.
func serverLog(t *testing.T, ctx context.Context, pool *pgxpool.Pool, server *pgserver.Server) (written string) {
	t.Helper()
	last := rand.Text()
	_, err := pool.Exec(ctx, fmt.Sprintf(`DO $$ BEGIN RAISE LOG '%s'; END $$`, last))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(server.DataDir(), "log", "postgresql.log"))
		written = string(text)
		return err == nil && strings.Contains(written, last)
	}, 10*time.Minute, 5*time.Millisecond)
	return written
}
