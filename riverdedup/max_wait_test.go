package riverdedup

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestMaxWait: the Deduper's MaxWait or 10 seconds bounds the wait for a twin, and so does half of
// the time that the job has left.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://localhost/db") // connects to nothing
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	for name, c := range map[string]struct {
		option, left time.Duration
		want         time.Duration // zero if it is half of left
	}{
		"Default":                   {0, 0, 10 * time.Second},
		"Option":                    {time.Hour, 0, time.Hour},
		"NotAtAll":                  {-1, time.Hour, -1},
		"DefaultOfALongJob":         {0, time.Hour, 10 * time.Second},
		"DefaultOfAShortJob":        {0, 16 * time.Second, 0},
		"OptionLongerThanTheJobHas": {time.Hour, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := dedup.New(pool, &dedup.Options{MaxWait: c.option})
			require.NoError(t, err)
			ctx := t.Context()
			if c.left != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.left)
				defer cancel()
			}
			got := maxWait(ctx, d)
			if c.want != 0 {
				require.Equal(t, c.want, got)
				return
			}
			require.LessOrEqual(t, got, c.left/2)
			require.NotZero(t, got)
		})
	}
	require.Equal(t, 10*time.Second, maxWait(t.Context(), nil), "Do refuses it")
}
