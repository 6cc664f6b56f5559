package external_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestEventLog reads a log line for every step. Its level tells whether an operator is needed.
func TestEventLog(t *testing.T) {
	t.Parallel()
	levels := map[external.EventKind]string{
		external.EventTwice: "ERROR", external.EventParked: "WARN", external.EventResolved: "WARN",
		external.EventUnknown: "INFO", external.EventSending: "DEBUG",
	}
	for kind, level := range levels {
		var text bytes.Buffer
		tracer := dedup.NewSlogTracer(slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
		tracer.TraceEvent(t.Context(), external.Event{
			CallData: dedup.CallData{
				Func: "external", Scope: "acme", Tool: "charge", Key: "k", KeyHash: dedup.KeyHash("k"),
				Attrs: []slog.Attr{slog.String("agent", "billing")},
			},
			Kind: kind, Fence: 7, Ref: "ch_1", Note: "the answer is lost",
		})
		var line map[string]any
		require.NoError(t, json.Unmarshal(text.Bytes(), &line))
		delete(line, "time")
		require.Equal(t, map[string]any{
			"level": level, "msg": "tool_effect_" + string(kind), "scope": "acme", "tool": "charge", "key_hash": dedup.KeyHash("k"),
			"agent": "billing", "fence": 7.0, "ref": "ch_1", "note": "the answer is lost",
		}, line)
	}
}

// TestStepsHaveAttrs finds the call's attributes in every step of an operation.
func TestStepsHaveAttrs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	charge := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{ID: "ch_1"}, nil }})
	agent := []slog.Attr{slog.String("agent", "ada")}
	var others atomic.Int64
	f.steps.stopAt(func(data external.Event) {
		if !slices.EqualFunc(data.Attrs, agent, slog.Attr.Equal) {
			others.Add(1)
		}
	})
	_, err := charge.Do(dedup.WithAttrs(f.ctx, agent...), call("k"), in{})
	require.NoError(t, err)
	require.Equal(t, 1, f.steps.count(external.EventRecorded))
	require.Zero(t, others.Load())
}
