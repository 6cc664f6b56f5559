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
		"CarriedUnkeyed":      {"outer", runner.Call{Class: tool.Write, Unkeyed: true}, ""},
		"Minted":              {"", runner.Call{Class: tool.Write}, minted},
		"MintedDestructive":   {"", runner.Call{Class: tool.Destructive}, minted},
		"MintedExternal":      {"", runner.Call{Class: tool.External}, minted},
		"NoneIdempotent":      {"", runner.Call{Class: tool.Idempotent}, ""},
		"NoneRead":            {"", runner.Call{Class: tool.ReadOnly}, ""},
		"NoneUnclassified":    {"", runner.Call{}, ""},
		"NoneUnkeyed":         {"", runner.Call{Class: tool.Write, Unkeyed: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.call.Tool = "t"
			s := failing()
			result, err := runner.Do(runner.WithKey(t.Context(), test.carried), nil, test.call, s.try)
			require.NoError(t, err)
			require.Equal(t, []string{result.Key}, s.keys)
			require.Equal(t, s.keys, s.ctx, "a call without a key carries none")
			if test.want != minted {
				require.Equal(t, test.want, result.Key)
				return
			}
			require.Len(t, result.Key, len(dedup.NewKey()))
			again, err := runner.Do(t.Context(), nil, test.call, failing().try)
			require.NoError(t, err)
			require.NotEqual(t, result.Key, again.Key, "another call, another key")
		})
	}
}

// A wrapper that retries and what it wraps are one intent, and have one key.
func TestNoLayerMintsAnotherKey(t *testing.T) {
	t.Parallel()
	call := runner.Call{Tool: "t", Class: tool.Write}
	sent := failing(errBusy, errBusy, errBusy) // all that the wrapped Do has for its first time
	var keys []string
	result, err := runner.Do(t.Context(), setup().Runner, call, func(ctx context.Context, _ runner.Try) (string, error) {
		inner, err := runner.Do(ctx, setup().Runner, call, func(ctx context.Context, try runner.Try) (string, error) {
			keys = append(keys, try.Key)
			return sent.try(ctx, runner.Try{Number: len(keys), Key: try.Key})
		})
		return inner.Value, err
	})
	require.NoError(t, err)
	require.Equal(t, "answer", result.Value)
	require.Equal(t, 2, result.Tries)
	require.Equal(t, []string{result.Key, result.Key, result.Key, result.Key}, keys)
}

// A key that Do made for one tool is not taken for calls of others inside it:
// two of them would be taken for one.
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
		"Unkeyed":     {runner.Call{Class: tool.Write, Unkeyed: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.call.Tool = "book_flight"
			inner := failing()
			outer := runner.Call{Tool: "book_trip", Class: tool.Write}
			_, err := runner.Do(t.Context(), setup().Runner, outer, func(ctx context.Context, _ runner.Try) (string, error) {
				result, err := runner.Do(ctx, nil, test.call, inner.try)
				return result.Value, err
			})
			if !test.refused {
				require.NoError(t, err)
				require.Equal(t, []string{""}, inner.ctx)
				return
			}
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, "Key", invalid.Field)
			require.ErrorContains(t, err, "book_trip")
			require.Empty(t, inner.keys)
		})
	}

	// With a key of its own, the same on every try of the outer call, it is fine.
	var keys []string
	_, err := runner.Do(t.Context(), setup().Runner, runner.Call{Tool: "book_trip", Class: tool.Write},
		func(ctx context.Context, try runner.Try) (string, error) {
			key, err := dedup.KeyFromIntent(try.Key, "outbound")
			require.NoError(t, err)
			result, err := runner.Do(ctx, nil, runner.Call{Tool: "book_flight", Class: tool.Write, Key: key}, failing().try)
			keys = append(keys, result.Key)
			return "", errors.Join(err, errBusy)
		})
	require.ErrorIs(t, err, runner.ErrTriesUsedUp)
	require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys)
}
