package replay

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

func TestWireKind(t *testing.T) {
	t.Parallel()
	for planned, want := range map[fault]faultproxy.Kind{
		{lostAnswer, reset}: faultproxy.ReplyReset, {lostAnswer, closed}: faultproxy.ReplyClosed, {lostAnswer, cut}: faultproxy.ReplyCut,
		{lostReply, reset}: faultproxy.ReplyReset, {lostReply, closed}: faultproxy.ReplyClosed, {lostReply, cut}: faultproxy.ReplyCut,
		{cutBeforeCommit, ""}: faultproxy.Dropped, {delayedCommit, ""}: faultproxy.Delayed,
		{terminate, effectBegins}: faultproxy.Hold, {terminate, effectEnds}: faultproxy.Hold,
		{kill, effectBegins}: faultproxy.Hold, {kill, effectEnds}: faultproxy.Hold,
		{kill, commitUnsent}: faultproxy.Hold, {kill, commitSent}: faultproxy.Hold, {kill, committed}: faultproxy.ReplyDelayed,
	} {
		require.Equal(t, want, planned.wireKind(), "%s %s", planned.kind, planned.how)
	}
}

func TestAims(t *testing.T) {
	t.Parallel()
	units := map[string]faultproxy.Unit{
		"look-up":   {Executes: []string{"begin isolation level read committed", "SELECT pg_try_advisory_xact_lock($1)", `SELECT fingerprint FROM "public"."tool_dedup"`}},
		"begin":     {Executes: []string{"begin"}},
		"look":      {Executes: []string{"SELECT refused, answer FROM replay_calls WHERE ref = $1"}},
		"enter":     {Executes: []string{"INSERT INTO replay_ledger (session, ref) SELECT session, ref FROM replay_calls WHERE ref = $1 RETURNING entry"}},
		"commit":    {Executes: []string{"WITH written AS (INSERT INTO tool_dedup)", "commit"}, Commits: true},
		"rollback":  {Executes: []string{"rollback"}},
		"preparing": {Prepares: []string{"SELECT refused, answer FROM replay_calls", "INSERT INTO replay_ledger", "commit"}},
		"ping":      {},
	}
	for _, tt := range []struct {
		fault fault
		hits  []string
	}{
		{fault{kind: lostReply, how: cut}, []string{"look-up", "begin"}},
		{fault{kind: terminate, how: effectBegins}, []string{"look"}},
		{fault{kind: kill, how: effectEnds}, []string{"enter"}},
		{fault{kind: kill, how: commitUnsent}, []string{"commit"}},
		{fault{kind: lostAnswer, how: reset}, []string{"commit"}},
		{fault{kind: cutBeforeCommit}, []string{"commit"}},
		{fault{kind: delayedCommit}, []string{"commit"}},
	} {
		var hits []string
		for name, unit := range units {
			if tt.fault.aims(unit) {
				hits = append(hits, name)
			}
		}
		require.ElementsMatch(t, tt.hits, hits, "%s %s", tt.fault.kind, tt.fault.how)
	}
}

// TestFaultHitsOnce arms one fault at eight workers. All offer a unit at once.
func TestFaultHitsOnce(t *testing.T) {
	t.Parallel()
	a := &armedFault{fault: fault{cutBeforeCommit, ""}}
	var hits atomic.Int32
	var offering sync.WaitGroup
	for at := range workerCount {
		where := a.where(at)
		offering.Go(func() {
			require.False(t, where(faultproxy.Unit{Conn: 1}))
			if where(faultproxy.Unit{Conn: at + 1, Commits: true}) {
				hits.Add(1)
			}
		})
	}
	offering.Wait()
	require.EqualValues(t, 1, hits.Load())

	work := faultproxy.Unit{Conn: a.conn, Executes: []string{"begin"}}
	require.False(t, a.retry(a.at)(work), "the connection that was hit")
	work.Conn++
	require.True(t, a.retry(a.at)(work), "another of the same worker")
	require.False(t, a.retry(a.at+1)(work), "another worker")
}
