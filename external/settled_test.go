package external

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/table"
)

// TestSettlesSinceTheRowWasTaken is a process that is paused after it has read that an
// operation is due. Meanwhile a late attempt ends, which is not known by what was read: it
// has to settle before another one is made.
func TestSettlesSinceTheRowWasTaken(t *testing.T) {
	t.Parallel()
	ctx, x := t.Context(), toolsOf(t, nil)
	attempts := 0
	_, err := Add(x, Tool[int, string]{
		Name: "charge", Settles: time.Minute, Ref: func(out string) string { return out },
		Perform: func(context.Context, Attempt, int) (string, error) {
			attempts++
			return "ch_1", nil
		},
		Find: func(context.Context, Attempt, int) ([]string, error) { return nil, nil },
	})
	require.NoError(t, err)
	_, err = x.pool.Exec(ctx, `INSERT INTO tool_effect (scope, tool, key, state, fence, due_at, sent_at, sent_until, tries, looked, fingerprint, input, created_at, changed_at)
SELECT 'acme', 'charge', 'k', 'running', nextval('tool_effect_fence'), now, now - interval '1 hour', now - interval '1 hour', 1, false, decode(repeat('00', 32), 'hex'), '1', now, now FROM clock_timestamp() AS now`)
	require.NoError(t, err)
	id := table.Identity{Scope: "acme", Tool: "charge", Key: "k"}
	read, err := x.read(ctx, id)
	require.NoError(t, err)
	_, err = x.pool.Exec(ctx, `UPDATE tool_effect SET sent_until = clock_timestamp()`)
	require.NoError(t, err)

	x.advance(ctx, &act{}, x.tool("charge"), read, time.Now())
	require.Zero(t, attempts)
	op, _, err := x.lookup(ctx, id)
	require.NoError(t, err)
	require.Equal(t, Running, op.State)
	require.Greater(t, op.Due.Sub(op.Now), 30*time.Second)
}
