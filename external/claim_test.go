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
		always bool
		gives  bool // up: nobody knows
		citus  bool // played: there a claim is a transaction, and its COMMIT is lost
	}{
		"Reply":               {kind: faultproxy.ReplyReset},
		"Dropped":             {kind: faultproxy.Dropped},
		"ReplyAlways":         {kind: faultproxy.ReplyReset, always: true, gives: true},
		"DroppedAlways":       {kind: faultproxy.Dropped, always: true, gives: true},
		"Citus/ReplyAlways":   {kind: faultproxy.ReplyReset, always: true, citus: true},
		"Citus/DroppedAlways": {kind: faultproxy.Dropped, always: true, gives: true, citus: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, proxy := proxied(t, nil)
			p := newProvider()
			tool := external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
				return p.act(a.Key, i.Order), nil
			}}
			h := add(f, tool)
			where := claiming
			if tt.citus {
				playCitus(f)
				where = faultproxy.AtCommit
			}
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
		})
	}
}

// playCitus makes the process believe that its database is Citus, where the COMMIT of a claim is a trip of its own.
func playCitus(f *fixture) {
	f.exec(`INSERT INTO pg_catalog.pg_extension VALUES (1, 'citus', 10, 11, false, '', NULL, NULL)`)
}

var claiming = faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)

// claimsThrough is a process behind a proxy, and the claims that it sends.
func claimsThrough(t *testing.T) (*fixture, *faultproxy.Proxy, <-chan struct{}) {
	t.Helper()
	f, proxy := proxied(t, nil)
	claims := make(chan struct{}, 1000)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		if claiming(u) {
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
	playCitus(f)
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
	require.Equal(t, []string{"finish ch_1"}, f.ledger())
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
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: claiming})
		}
		<-goOn
		return out{"ch_1"}, nil
	}})
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: claiming})
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
