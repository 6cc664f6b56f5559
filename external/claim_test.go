package external_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestClaimIsLost cuts the connection at a claim: before it has come, and where its answer
// is lost. Then nobody knows whether it is committed, and the call goes on.
func TestClaimIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind   faultproxy.Kind
		begins bool // the tool writes with the claim, which is a transaction then
		always bool
		gives  bool // up: nobody knows
	}{
		"Reply":               {kind: faultproxy.ReplyReset},
		"Dropped":             {kind: faultproxy.Dropped},
		"ReplyAlways":         {kind: faultproxy.ReplyReset, always: true, gives: true},
		"DroppedAlways":       {kind: faultproxy.Dropped, always: true, gives: true},
		"Begin/Reply":         {kind: faultproxy.ReplyReset, begins: true},
		"Begin/Dropped":       {kind: faultproxy.Dropped, begins: true},
		"Begin/ReplyAlways":   {kind: faultproxy.ReplyReset, begins: true, always: true},
		"Begin/DroppedAlways": {kind: faultproxy.Dropped, begins: true, always: true, gives: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, err := faultproxy.New(pgtest.New(t).URL)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			pool, err := pgxpool.New(t.Context(), proxy.URL())
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			f := processWith(t, pool, &external.Options{Lease: shortLease})
			p := newProvider()
			tool := external.Tool[in, out]{KeyKept: external.Forever, Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
				return p.act(a.Key, i.Order), nil
			}}
			where := faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)
			if tt.begins {
				tool = ledger(f, tool)
				where = faultproxy.AtCommit
			}
			h := add(f, tool)
			fault := faultproxy.Fault{Kind: tt.kind, Where: where}
			if tt.always {
				fault.Times = -1
			}
			proxy.Arm(fault)
			result, err := h.Do(f.ctx, call("k"), in{1})
			if tt.gives {
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.True(t, dedup.IsRetryable(err))
				require.Zero(t, p.effects())
				return
			}
			require.NoError(t, err)
			require.Equal(t, out{"ch_1"}, result.Value)
			if tt.begins {
				require.Equal(t, []string{"begin 1", "finish ch_1"}, f.ledger())
			}
		})
	}
}
