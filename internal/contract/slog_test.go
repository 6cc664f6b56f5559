package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	for name, show := range map[string]bool{"Hashes": false, "ShowKeys": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			ctx, f := plain.setup(t, &dedup.Options{Tracer: dedup.NewSlogTracer(logger, &dedup.SlogOptions{ShowKeys: show})})
			scenario(t, ctx, f)

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
				if show {
					delete(entry, "key")
				}
				rest, err := json.Marshal(entry)
				require.NoError(t, err)
				require.NotContains(t, string(rest), secret)
			}
			require.Equal(t, map[string]int{
				"tool_call_executed": 3, "tool_call_deduplicated": 3, "tool_call_key_reused": 1, "tool_call_retried": 1,
				"tool_call_broken": 1, "tool_call_expired": 1, "tool_call_reset": 1, "tool_dedup_swept": 1,
			}, seen)
			require.Equal(t, "INFO", replay["level"])
			require.Equal(t, "pay", replay["tool"])
			require.Equal(t, "acme", replay["scope"])
			require.Equal(t, dedup.KeyHash("k"+secret), replay["key_hash"])
			require.Positive(t, replay["age_seconds"])
			_, err := time.Parse(time.RFC3339Nano, replay["first_at"].(string))
			require.NoError(t, err)
			require.Equal(t, show, bytes.Contains(log.Bytes(), []byte(`"key":"k`+secret)))
		})
	}
}

// logged is a tracer that logs as JSON, and its log.
type logged struct{ lockedBuffer }

func (l *logged) tracer() dedup.Tracer {
	return dedup.NewSlogTracer(slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
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
	ways := map[string]func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) error{
		"DoBatch": func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) error {
			for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil) {
				if out.Err != nil {
					return out.Err
				}
			}
			return nil
		},
		"DoTogether": func(ctx context.Context, d *dedup.Deduper, calls []dedup.StatementCall) error {
			_, err := dedup.DoTogether[ticket](ctx, d, calls)
			return err
		},
	}
	for name, run := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logged
			ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer()})
			f.exec(t, fixtureSQL)
			calls := singles("k", n)
			require.NoError(t, run(ctx, f.d, calls))
			require.Empty(t, log.take(t, slog.LevelInfo, slog.LevelWarn, slog.LevelError))

			require.NoError(t, run(ctx, f.d, append(calls, single("new"))))
			info := log.take(t, slog.LevelInfo, slog.LevelWarn, slog.LevelError)
			require.Len(t, info, 1)
			require.Positive(t, info[0]["duration_seconds"])
			delete(info[0], "time")
			delete(info[0], "duration_seconds")
			require.Equal(t, map[string]any{
				"level": "INFO", "msg": "tool_batch_deduplicated", "tool": calls[0].Call.Tool, "scope": calls[0].Call.Scope,
				"calls": float64(n + 1), "executed": 1.0, "replayed": float64(n), "failed": 0.0,
			}, info[0])

			require.NoError(t, run(ctx, f.d, append(calls, other)))
			lines := log.take(t, slog.LevelDebug, slog.LevelInfo)
			require.Equal(t, n, countMessages(lines, "tool_call_deduplicated"))
			require.Equal(t, 1, countMessages(lines, "tool_call_executed"))
			require.Equal(t, 1, countMessages(lines, "tool_batch_deduplicated"))
			require.NotContains(t, lines[len(lines)-1], "tool", "the calls are of two tools")
			require.Equal(t, calls[0].Call.Scope, lines[len(lines)-1]["scope"])
		})
	}
}

func countMessages(lines []map[string]any, msg string) (n int) {
	for _, line := range lines {
		if line["msg"] == msg {
			n++
		}
	}
	return n
}

// An age is in seconds and says so. It was a bare number of nanoseconds.
func TestSlogTracerNamesUnits(t *testing.T) {
	t.Parallel()

	var log logged
	ctx, f := plain.setup(t, &dedup.Options{Tracer: log.tracer()})
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		require.NoError(t, err)
		f.age(t, "k", "90 minutes")
	}
	replay := log.take(t, slog.LevelInfo)
	require.Len(t, replay, 1)
	require.InDelta(t, 5400, replay[0]["age_seconds"], 60)
	require.NotContains(t, replay[0], "age")
	require.Contains(t, replay[0], "waited_seconds")
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
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(time.Second))
			return ctx, func() { <-ctx.Done(); cancel() }
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
