package external

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStaleRead is a process that has read an operation whose lease was over, and acts on it
// when the attempt has ended after all: it does not go by what it has read.
func TestStaleRead(t *testing.T) {
	t.Parallel()
	ctx, x := t.Context(), toolsOf(t, nil)
	_, err := Add(x, Tool[string, string]{
		Name: "charge", Settles: time.Hour, Ref: func(s string) string { return s }, Timeout: time.Second,
		Find: func(context.Context, Attempt, string) ([]string, error) { return nil, nil },
		Perform: func(context.Context, Attempt, string) (string, error) {
			t.Error("attempted before the last attempt has settled")
			return "", nil
		},
	})
	require.NoError(t, err)
	for name, end := range map[string]func(at *attempt) error{
		"unknown":  func(at *attempt) error { return x.postpone(ctx, at, "lost", true) },
		"not done": func(at *attempt) error { return x.release(ctx, at, "429") },
		"settles": func(at *attempt) error {
			return x.change(ctx, at, x.sql.settleLater, time.Duration(0), at.row.sentUntil)
		},
	} {
		_, err := x.pool.Exec(ctx, `INSERT INTO tool_effect (scope, tool, key, state, sent_at, sent_until, due_at, fence, tries, looked, fingerprint, input, created_at, changed_at)
			SELECT 'acme', 'charge', $1, 'running', now() - interval '3 hours', now() - interval '2 hours', now() - interval '2 hours', nextval('tool_effect_fence'), 1, false, decode(repeat('07', 32), 'hex'), '"in"', now(), now()`, name)
		require.NoError(t, err)
		id, err := identity("acme", "charge", name)
		require.NoError(t, err)
		read, err := x.read(ctx, id)
		require.NoError(t, err)
		require.NoError(t, end(&attempt{row: read, t: x.tool("charge")}))
		_, err = x.pool.Exec(ctx, `UPDATE tool_effect SET due_at = clock_timestamp() WHERE key = $1`, name)
		require.NoError(t, err)
		a := &act{}
		x.advance(ctx, a, x.tool("charge"), read, time.Now())
		require.ErrorIs(t, a.err, errStale, name)
	}
}
