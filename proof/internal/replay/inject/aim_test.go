package inject

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	units := map[string]faultproxy.Unit{
		"look-up":   {Executes: []string{"begin isolation level read committed", "SELECT pg_try_advisory_xact_lock($1)", `SELECT fingerprint FROM "public"."tool_dedup"`}},
		"begin":     {Executes: []string{"begin"}},
		"read":      {Executes: []string{"SELECT doc\n\t\tFROM airline_users\n\t\tFOR UPDATE"}},
		"change":    {Executes: []string{"UPDATE retail_orders SET doc = $2"}},
		"audit":     {Executes: []string{"\n\t\tINSERT INTO effects (domain, tool, subject, call_ref)"}},
		"commit":    {Executes: []string{"WITH written AS (INSERT INTO tool_dedup)", "commit"}, Commits: true},
		"rollback":  {Executes: []string{"rollback"}},
		"preparing": {Prepares: []string{"SELECT doc FROM airline_users", "INSERT INTO effects", "commit"}},
		"ping":      {},
	}
	for _, tt := range []struct {
		fault plan.Fault
		hits  []string
	}{
		{plan.Fault{Kind: plan.LostReply, How: plan.Cut}, []string{"look-up", "begin"}},
		{plan.Fault{Kind: plan.Terminate, How: plan.EffectBegins}, []string{"read", "change"}},
		{plan.Fault{Kind: plan.Kill, How: plan.EffectEnds}, []string{"audit"}},
		{plan.Fault{Kind: plan.Kill, How: plan.CommitUnsent}, []string{"commit"}},
		{plan.Fault{Kind: plan.LostAnswer, How: plan.Reset}, []string{"commit"}},
		{plan.Fault{Kind: plan.CutBeforeCommit}, []string{"commit"}},
		{plan.Fault{Kind: plan.DelayedCommit}, []string{"commit"}},
		{plan.Fault{Kind: plan.BetweenNodes, How: plan.CommitUnsent}, []string{"commit"}},
	} {
		var hits []string
		for name, unit := range units {
			if target(tt.fault)(unit) {
				hits = append(hits, name)
			}
		}
		require.ElementsMatch(t, tt.hits, hits, "%s %s", tt.fault.Kind, tt.fault.How)
	}
}

func TestEveryFaultHasItsWay(t *testing.T) {
	t.Parallel()
	set, err := plan.ParseSet("all")
	require.NoError(t, err)
	for seed := range uint64(500) {
		for _, round := range plan.Draw(seed, "ref", false, set).Rounds {
			for _, fault := range round.Faults {
				if fault.Kind == plan.CutConnection {
					continue // of another wire
				}
				require.NotEmpty(t, wireKind(fault), "%s %s", fault.Kind, fault.How)
			}
		}
	}
}

// TestAimHitsOnce arms one aim at eight workers that all offer a unit at once.
func TestAimHitsOnce(t *testing.T) {
	t.Parallel()
	a := &aim{match: faultproxy.AtCommit}
	var hits atomic.Int32
	var offering sync.WaitGroup
	for at := range plan.Workers {
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
