package external_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

var claiming = faultproxy.AtSQL(`INSERT INTO "public"."tool_effect"`)

// claimsThrough returns a process behind a proxy, and a channel with one element for each claim it
// sends.
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

// TestClaimIsCommittedLate loses the reply to a claim that commits late: the call's next claim has
// already met it as another call's.
func TestClaimIsCommittedLate(t *testing.T) {
	t.Parallel()
	f, proxy, claims := claimsThrough(t)
	playCitus(f)
	p := newProvider()
	f.makeLedger()
	h := add(f, ledger(external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		return p.act(a.Key, i.Order), nil
	}}))
	late := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Delayed, Where: faultproxy.AtCommit})
	go func() {
		for range 4 { // the second and the third meet the first one
			<-claims
		}
		late.Release()
	}()
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 1, p.effects())
	require.Equal(t, []string{"finish ch_1"}, f.ledger(1))
}

// TestClaimIsKnownOnce loses the replies to the claims around an attempt that outlives its timeout.
// Once an attempt has begun, the nonce of its claim no longer means that nothing was sent.
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
		for range 5 { // lost, recognized, lost again, not recognized
			<-claims
		}
		close(goOn)
	}()
	_, err := h.Do(f.ctx, call("k"), in{1})
	if err != nil { // parked before the attempt returned
		require.ErrorAs(t, err, new(*external.ParkedError))
	}
	require.EqualValues(t, 1, attempts.Load())
}

// nodesLostCommits loses a call's claim or record, or the reply to it, and messages between nodes.
// On PostgreSQL a claim is one statement, and on Citus a transaction whose COMMIT is lost.
func nodesLostCommits(t *testing.T, e engine) {
	for name, c := range map[string]struct {
		settling bool // lose the record
		kind     faultproxy.Kind
		always   bool
		gives    bool // the call gives up: the claim's outcome is unknown
	}{
		"claim/answer":       {kind: faultproxy.ReplyReset},
		"claim/sent":         {kind: faultproxy.Dropped},
		"claim/answerAlways": {kind: faultproxy.ReplyReset, always: true, gives: e == postgres},
		"claim/sentAlways":   {kind: faultproxy.Dropped, always: true, gives: true},
		"settling/answer":    {settling: true, kind: faultproxy.ReplyReset},
		"settling/sent":      {settling: true, kind: faultproxy.Dropped},
	} {
		for _, between := range []bool{false, true} {
			if between && (e != cluster || c.always) {
				continue
			}
			t.Run(fmt.Sprint(name, "/between=", between), func(t *testing.T) {
				t.Parallel()
				on, p := onNodes(t, e), newProvider()
				proxies := on.proxied(t, between)
				at := on[0]
				if !between {
					at = proxies[0].URL()
				}
				f := process(t, connect(t, at))
				tool := performing("neither", p)
				if e == cluster {
					tool = performing("key", p)
				}
				h := add(f, tool)
				_, err := h.Do(f.ctx, call("warm"), in{0})
				require.NoError(t, err)
				fault := faultproxy.Fault{Kind: c.kind, Where: faultproxy.AtCommit}
				if e == postgres && !c.settling {
					fault.Where = claiming
				}
				if c.always {
					fault.Times = -1
				}
				arm := func() {
					for _, proxy := range proxies {
						proxy.Arm(fault)
					}
				}
				if !c.settling {
					arm()
				} else {
					f.steps.stopAt(func(data external.Event) {
						if data.Kind == external.EventAnswered {
							arm()
						}
					})
				}
				result, err := h.Do(f.ctx, call("k"), in{1})
				if c.gives {
					require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
					require.True(t, dedup.IsRetryable(err))
					require.Equal(t, 1, p.effects())
					return
				}
				require.NoError(t, err)
				require.Equal(t, out{"ch_2"}, result.Value)
				again, err := add(on.process(t, 1), tool).Do(f.ctx, call("k"), in{1})
				require.NoError(t, err)
				require.True(t, again.Replayed)
				require.Equal(t, 2, p.effects())
			})
		}
	}
}

// nodesLostNodes cuts the connection at one statement after the other, between the nodes on a
// cluster. No call fails, and each acts once.
func nodesLostNodes(t *testing.T, e engine) {
	on, p := onNodes(t, e), newProvider()
	proxies := on.proxied(t, e == cluster)
	at := on[0]
	if e != cluster {
		at = proxies[0].URL()
	}
	for _, refuses := range []bool{false, true} {
		f := process(t, connect(t, at))
		h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
			o := p.act(a.Key, i.Order)
			if refuses {
				return out{}, dedup.Final(errors.New("declined"))
			}
			return o, nil
		}})
		for n, done := 0, false; !done; n++ {
			var passed atomic.Int64
			var armed []*faultproxy.Armed
			for _, proxy := range proxies {
				armed = append(armed, proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: func(u faultproxy.Unit) bool {
					return u.Index > 0 && len(u.Executes) > 0 && !citusOwn.MatchString(u.Executes[0]) && passed.Add(1) == int64(n)+1
				}}))
			}
			acted := p.effects()
			_, err := h.Do(f.ctx, call(fmt.Sprint(refuses, n)), in{n})
			if refuses {
				require.ErrorIs(t, err, dedup.ErrRefused, n)
			} else {
				require.NoError(t, err, n)
			}
			require.Equal(t, acted+1, p.effects(), n)
			done = true
			for _, a := range armed {
				done = done && a.Count() == 0
				a.Disarm()
			}
		}
	}
}

// citusOwn matches statements of Citus's own processes, and those that they repeat within a minute
// after a node was lost: the second half of a two-phase commit.
var citusOwn = regexp.MustCompile(`dump_local_wait_edges|pg_prepared_xacts|application_name|^COMMIT PREPARED`)

// proxied starts fault proxies in front of the coordinator, or between the nodes and the workers.
func (n nodes) proxied(t *testing.T, between bool) (proxies []*faultproxy.Proxy) {
	t.Helper()
	behind := n[:1]
	if between {
		behind = n[1:]
	}
	for _, at := range behind {
		proxy, err := faultproxy.New(at)
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		proxies = append(proxies, proxy)
		if !between {
			continue
		}
		via, err := url.Parse(proxy.URL())
		require.NoError(t, err)
		own, err := url.Parse(at)
		require.NoError(t, err)
		for _, node := range n {
			_, err = connect(t, node).Exec(t.Context(), `UPDATE pg_dist_node SET nodename = $1, nodeport = $2::int WHERE nodeport = $3::int`, via.Hostname(), via.Port(), own.Port())
			require.NoError(t, err)
		}
	}
	return proxies
}
