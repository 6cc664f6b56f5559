package external_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// TestRoundTrips counts round trips: a first call one before Perform and three after it, a replay
// one, and Accept one in the caller's transaction.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			f, proxy := proxied(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.DefaultQueryExecMode = 1, mode })
			var before int
			h := add(f, external.Tool[in, out]{Timeout: time.Minute, Perform: func(context.Context, external.Attempt, in) (out, error) {
				before = proxy.Snapshot().RoundTrips
				return out{"ch_1"}, nil
			}})
			do := func(key string) func() {
				return func() {
					_, err := h.Do(f.ctx, call(key), in{1})
					require.NoError(t, err)
				}
			}
			trips := func(what func()) int {
				proxy.Reset()
				what()
				return proxy.Snapshot().RoundTrips
			}
			do("warm")()
			for i := range 3 {
				all := trips(do(fmt.Sprint(i)))
				require.Equal(t, 1, before, "before Perform")
				require.Equal(t, 4, all, "first call: %v", proxy.Snapshot().Statements)
			}
			for range 3 {
				require.Equal(t, 1, trips(do("warm")), "replay")
			}
			tx := f.begin()
			for i := range 3 {
				accept := func() {
					_, err := h.Accept(f.ctx, tx, call(fmt.Sprint("accepted ", i)), in{1})
					require.NoError(t, err)
				}
				if i == 0 {
					accept()
					continue
				}
				require.Equal(t, 1, trips(accept), "Accept")
			}
			require.NoError(t, tx.Commit(f.ctx))
		})
	}
}
