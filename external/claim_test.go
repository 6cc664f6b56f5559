package external_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
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
			f, proxy := proxied(t, nil)
			p := newProvider()
			tool := external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
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

// claimsThrough is a process behind a proxy, and the claims that it sends.
func claimsThrough(t *testing.T) (*fixture, *faultproxy.Proxy, <-chan struct{}) {
	t.Helper()
	f, proxy := proxied(t, nil)
	claims := make(chan struct{}, 1000)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		if faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)(u) {
			claims <- struct{}{}
		}
		return false
	}})
	return f, proxy, claims
}

// TestClaimIsCommittedLate loses the answer to a claim that is committed only when the call has tried
// again, and has met it as somebody's.
func TestClaimIsCommittedLate(t *testing.T) {
	t.Parallel()
	f, proxy, claims := claimsThrough(t)
	p := newProvider()
	h := add(f, ledger(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		return p.act(a.Key, i.Order), nil
	}}))
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: faultproxy.AtCommit})
	go func() {
		for range 4 { // the second and the third have met the first one
			<-claims
		}
		late.Release()
	}()
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 1, p.effects())
	require.Equal(t, []string{"begin 1", "finish ch_1"}, f.ledger())
}

// TestClaimIsKnownOnce loses the answers to the claims around an attempt which outlives its time: what
// tells a claim says nothing of it once it is attempted.
func TestClaimIsKnownOnce(t *testing.T) {
	t.Parallel()
	f, proxy, claims := claimsThrough(t)
	var attempts atomic.Int32
	goOn := make(chan struct{})
	h := add(f, external.Tool[in, out]{Timeout: time.Millisecond, Perform: func(context.Context, external.Attempt, in) (out, error) {
		if attempts.Add(1) == 1 {
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)})
		}
		<-goOn
		return out{"ch_1"}, nil
	}})
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)})
	go func() {
		for range 5 { // one is lost, known, lost again, and no more known
			<-claims
		}
		close(goOn)
	}()
	_, err := h.Do(f.ctx, call("k"), in{1})
	if err != nil { // parked before the attempt has come back
		require.ErrorAs(t, err, new(*external.ParkedError))
	}
	require.EqualValues(t, 1, attempts.Load())
}
