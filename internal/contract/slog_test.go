package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// lockedBuffer is a log that several may write.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func TestSlogTracer(t *testing.T) {
	t.Parallel()

	var log lockedBuffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, f := plain.setup(t, &dedup.Options{Tracer: dedup.NewSlogTracer(logger)})
	scenario(t, ctx, f)
	require.NotContains(t, log.String(), secret)

	seen := map[string]int{}
	var replay map[string]any
	for line := range bytes.Lines(log.Bytes()) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal(line, &entry))
		msg := entry["msg"].(string)
		seen[msg]++
		if replay == nil && msg == "tool_call_deduplicated" {
			replay = entry
		}
	}
	require.Equal(t, map[string]int{
		"tool_call_executed": 3, "tool_call_deduplicated": 3, "tool_call_key_reused": 1, "tool_call_retried": 1,
		"tool_call_broken": 1, "tool_call_expired": 1, "tool_call_reset": 1, "tool_dedup_swept": 1,
	}, seen)
	require.Equal(t, "INFO", replay["level"])
	require.Equal(t, "pay", replay["tool"])
	require.Equal(t, "acme", replay["scope"])
	require.Equal(t, dedup.KeyHash("k"+secret), replay["key_hash"])
	require.Positive(t, replay["age_seconds"], "an age is in seconds and says so")
	require.NotContains(t, replay, "age")
	require.Contains(t, replay, "waited_seconds")
	_, err := time.Parse(time.RFC3339Nano, replay["created_at"].(string))
	require.NoError(t, err)
}

// Every line of a call has the attributes of that call's own context, also for a replay. The
// identity does not share them.
func TestSlogAttrs(t *testing.T) {
	t.Parallel()
	var log logged
	ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer()})
	agent := func(name string) context.Context {
		return dedup.WithAttrs(dedup.WithAttrs(ctx, slog.String("agent", "nobody"), slog.String("session", "17")), slog.String("agent", name))
	}
	scenario(t, agent("ada"), f)
	messages := map[any]bool{}
	for _, line := range log.take(t, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError) {
		if line["msg"] == "tool_dedup_swept" { // no call's
			require.NotContains(t, line, "agent")
			continue
		}
		messages[line["msg"]] = true
		require.Equal(t, "ada 17", fmt.Sprint(line["agent"], " ", line["session"]), line)
	}
	require.Len(t, messages, 7)

	effect := func(context.Context, pgx.Tx) (int, error) { return 1, nil }
	for _, name := range []string{"ada", "bob"} {
		result, err := dedup.Do(agent(name), f.d, call("whose"), effect)
		require.NoError(t, err)
		require.Equal(t, name == "bob", result.Replayed)
		line := log.take(t, slog.LevelDebug, slog.LevelInfo)
		require.Len(t, line, 1)
		require.Equal(t, name, line[0]["agent"])
	}

	for range 2 {
		for out := range dedup.DoBatch[ticket](agent("bob"), f.d, slices.Values(singles("k", 2)), nil) {
			require.NoError(t, out.Err)
		}
	}
	lines := log.take(t, slog.LevelDebug, slog.LevelInfo)
	require.Equal(t, 1, countMessages(lines, "tool_batch_deduplicated"))
	for _, line := range lines {
		require.Equal(t, "bob", line["agent"], line)
	}
	require.Empty(t, dedup.AttrsOf(ctx))
}

// What a server says quotes values. None of it is logged, at no level.
func TestSlogTracerLogsNoServerMessage(t *testing.T) {
	t.Parallel()
	const value = "4111-SECRET"
	var log logged
	ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer(), Retry: dedup.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Microsecond, MaxDelay: time.Microsecond}})
	f.exec(t, `CREATE TABLE cards (number text PRIMARY KEY CHECK (number <> 'x'), n int)`)
	raise := func(state string) string {
		return `DO $$ BEGIN RAISE EXCEPTION 'card ` + value + `' USING ERRCODE = '` + state + `', HINT = '` + value + `'; END $$`
	}
	for name, effect := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"cast": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT $1::text::int`, value)
			return fmt.Errorf("booking: %w", err)
		},
		"encode": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO cards (n) VALUES ($1)`, struct{ Number string }{value})
			return err
		},
		"check": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO cards VALUES ($1), ($1)`, value)
			return errors.Join(errOwn, err)
		},
		"transient": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, raise("40001"))
			return err
		},
		"ignored": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, raise("P0001"))
			return nil
		},
	} {
		_, err := dedup.Do(ctx, f.d, call(name), func(ctx context.Context, tx pgx.Tx) (ticket, error) { return ticket{}, effect(ctx, tx) })
		require.Error(t, err, name)
	}
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("statement"), dedup.SQL(`SELECT $1::text::int AS id`, value))
	require.ErrorContains(t, err, value)

	text := log.String()
	require.NotContains(t, text, value)
	for _, want := range []string{"booking: SQLSTATE 22P02 in pg_", "SQLSTATE 23505 in _bt_check_unique, constraint \\\"cards_pkey\\\"", "SQLSTATE 40001", "SQLSTATE P0001", "unable to encode an argument", errOwn.Error()} {
		require.Contains(t, text, want)
	}
}

// logged is a tracer that logs as JSON, and its log.
type logged struct{ lockedBuffer }

func (l *logged) tracer() dedup.Tracer {
	return dedup.NewSlogTracer(slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// take returns the lines at a level since the last time.
func (l *logged) take(t *testing.T, levels ...slog.Level) (lines []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.Bytes()) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal(line, &entry))
		var level slog.Level
		require.NoError(t, level.UnmarshalText([]byte(entry["level"].(string))))
		if slices.Contains(levels, level) {
			lines = append(lines, entry)
		}
	}
	l.Reset()
	return lines
}

// The replays of a batch are one line, however many they are. Each has its own at
// Debug.
func TestSlogTracerWritesALineForABatch(t *testing.T) {
	t.Parallel()

	const n = 250
	other := single("other")
	other.Call.Tool = "another"
	var log logged
	ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer()})
	run := func(calls []dedup.StatementCall) {
		_, err := byBatch(ctx, f.d, calls)
		require.NoError(t, err)
	}
	calls := singles("k", n)
	run(calls)
	require.Empty(t, log.take(t, slog.LevelInfo, slog.LevelWarn, slog.LevelError))

	run(append(calls, single("new")))
	info := log.take(t, slog.LevelInfo, slog.LevelWarn, slog.LevelError)
	require.Len(t, info, 1)
	require.Positive(t, info[0]["duration_seconds"])
	delete(info[0], "time")
	delete(info[0], "duration_seconds")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "tool_batch_deduplicated", "tool": calls[0].Call.Tool, "scope": calls[0].Call.Scope,
		"calls": float64(n + 1), "executed": 1.0, "replayed": float64(n), "failed": 0.0,
	}, info[0])

	run(append(calls, other))
	lines := log.take(t, slog.LevelDebug, slog.LevelInfo)
	require.Equal(t, n, countMessages(lines, "tool_call_deduplicated"))
	require.Equal(t, 1, countMessages(lines, "tool_call_executed"))
	require.Equal(t, 1, countMessages(lines, "tool_batch_deduplicated"))
	require.NotContains(t, lines[len(lines)-1], "tool", "the calls are of two tools")
	require.Equal(t, calls[0].Call.Scope, lines[len(lines)-1]["scope"])
}

func countMessages(lines []map[string]any, msg string) (n int) {
	for _, line := range lines {
		if line["msg"] == msg {
			n++
		}
	}
	return n
}

// overdue is a context whose deadline passes when done is closed.
type overdue struct {
	context.Context
	done chan struct{}
}

func (o overdue) Done() <-chan struct{} { return o.done }

func (o overdue) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return o.Context.Err()
	}
}

// A process that shuts down cancels its Sweeper's context. That is nothing to look
// into. A sweep that runs out of time is.
func TestSlogTracerIsCalmOnShutdown(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		end   func(context.Context) (context.Context, context.CancelFunc)
		level slog.Level
	}{
		"Cancelled": {context.WithCancel, slog.LevelDebug},
		"Deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			late := overdue{ctx, make(chan struct{})}
			return late, sync.OnceFunc(func() { close(late.done) })
		}, slog.LevelWarn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer()})
			f.fill(t, 10)
			f.forgetAll(t)
			ctx, end := c.end(ctx)
			sweeper, err := dedup.NewSweeper(f.d, &dedup.SweeperOptions{Sweep: dedup.SweepOptions{
				Archive: func(ctx context.Context, _ pgx.Tx, _ []dedup.SweptRecord) error {
					end()
					return ctx.Err()
				},
			}})
			require.NoError(t, err)
			require.ErrorIs(t, sweeper.Run(ctx), ctx.Err())
			all := log.take(t, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError)
			require.Len(t, all, 1)
			require.Equal(t, "tool_dedup_swept", all[0]["msg"])
			require.NotEmpty(t, all[0]["error"])
			require.Equal(t, c.level.String(), all[0]["level"])
		})
	}
}
