package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestKeyTravelsInTheContext(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, ok := runner.KeyFrom(ctx)
	require.False(t, ok)

	ctx = runner.WithKey(ctx, "k1")
	key, ok := runner.KeyFrom(ctx)
	require.True(t, ok)
	require.Equal(t, "k1", key)

	key, _ = runner.KeyFrom(runner.WithKey(ctx, "k2"))
	require.Equal(t, "k2", key)
	_, ok = runner.KeyFrom(runner.WithKey(ctx, ""))
	require.False(t, ok, "an empty key hides")
}

func TestDoChoosesTheKey(t *testing.T) {
	t.Parallel()
	const minted = "a new one"
	for name, test := range map[string]struct {
		carried string
		call    runner.Call
		want    string
	}{
		"Own":                 {"", runner.Call{Class: tool.Write, Key: "own"}, "own"},
		"OwnBeforeCarried":    {"outer", runner.Call{Class: tool.Write, Key: "own"}, "own"},
		"Carried":             {"outer", runner.Call{Class: tool.Write}, "outer"},
		"CarriedDestructive":  {"outer", runner.Call{Class: tool.Destructive}, "outer"},
		"CarriedIdempotent":   {"outer", runner.Call{Class: tool.Idempotent}, "outer"},
		"CarriedUnclassified": {"outer", runner.Call{}, "outer"},
		"CarriedRead":         {"outer", runner.Call{Class: tool.ReadOnly}, ""},
		"Minted":              {"", runner.Call{Class: tool.Write}, minted},
		"MintedDestructive":   {"", runner.Call{Class: tool.Destructive}, minted},
		"MintedExternal":      {"", runner.Call{Class: tool.External}, minted},
		"NoneIdempotent":      {"", runner.Call{Class: tool.Idempotent}, ""},
		"NoneRead":            {"", runner.Call{Class: tool.ReadOnly}, ""},
		"NoneUnclassified":    {"", runner.Call{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.call.Tool = "t"
			s := failing()
			_, err := runner.Do(runner.WithKey(t.Context(), test.carried), test.call, s.try)
			require.NoError(t, err)
			if test.want != minted {
				require.Equal(t, []string{test.want}, s.keys)
				return
			}
			require.Len(t, s.keys[0], len(dedup.NewKey()))
			again := failing()
			_, err = runner.Do(t.Context(), test.call, again.try)
			require.NoError(t, err)
			require.NotEqual(t, s.keys, again.keys, "another call, another key")
		})
	}
}

// A wrapper that retries and the Do inside it are one intent, and have one key.
func TestNoLayerMintsAnotherKey(t *testing.T) {
	t.Parallel()
	call := runner.Call{Tool: "t", Class: tool.Write, Pause: 1}
	sent := failing(errBusy, errBusy, errBusy) // all the tries of the inner Do, the first time
	answer, err := runner.Do(t.Context(), call, func(ctx context.Context) (string, error) {
		return runner.Do(ctx, call, sent.try)
	})
	require.NoError(t, err)
	require.Equal(t, "answer", answer)
	require.Equal(t, []string{sent.keys[0], sent.keys[0], sent.keys[0], sent.keys[0]}, sent.keys)
}

// Do's key for one tool is not used for calls of other tools inside it: two of them would be one
// call.
func TestAnotherToolsKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call    runner.Call
		refused bool
	}{
		"Write":       {runner.Call{Class: tool.Write}, true},
		"Destructive": {runner.Call{Class: tool.Destructive}, true},
		"External":    {runner.Call{Class: tool.External}, true},
		"Idempotent":  {runner.Call{Class: tool.Idempotent}, false},
		"Read":        {runner.Call{Class: tool.ReadOnly}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.call.Tool = "book_flight"
			inner := failing()
			outer := runner.Call{Tool: "book_trip", Class: tool.Write}
			_, err := runner.Do(t.Context(), outer, func(ctx context.Context) (string, error) {
				return runner.Do(ctx, test.call, inner.try)
			})
			if !test.refused {
				require.NoError(t, err)
				require.Equal(t, []string{""}, inner.keys)
				return
			}
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "Key", invalid.Field)
			require.ErrorContains(t, err, "book_trip")
			require.Empty(t, inner.keys)
		})
	}

	// With its own key, the same on every try of the outer call, the inner call works.
	inner := failing()
	_, err := runner.Do(t.Context(), runner.Call{Tool: "book_trip", Class: tool.Write, Pause: 1}, func(ctx context.Context) (string, error) {
		outer, _ := runner.KeyFrom(ctx)
		key, err := dedup.KeyFromIntent(outer, "outbound")
		require.NoError(t, err)
		_, err = runner.Do(ctx, runner.Call{Tool: "book_flight", Class: tool.Write, Key: key}, inner.try)
		return "", errors.Join(err, errBusy)
	})
	require.ErrorIs(t, err, errBusy)
	require.Equal(t, []string{inner.keys[0], inner.keys[0], inner.keys[0]}, inner.keys)
}
