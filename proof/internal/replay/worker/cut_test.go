package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// TestCutConnection cuts the connection of a delivery and makes it again: one
// effect, and where the worker had answered, that answer.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	for _, way := range []worker.Way{worker.HTTP, worker.MCP} {
		for _, how := range []plan.How{plan.RequestSent, plan.AnswerLost, plan.AnswerBroken} {
			t.Run(string(way)+"/"+string(how), func(t *testing.T) {
				t.Parallel()
				b := setup(t, way, worker.Dedup)
				cut := wire.NewCut(how)
				b.wire.Arm(cut)
				first := b.deliver(t, certificate(1))
				require.True(t, cut.Applied())
				again := b.deliver(t, certificate(2))
				require.Contains(t, again.Text, "certificate_3221322")
				require.Equal(t, 1, b.effects(t, "s/4/call_1"))
				if how != plan.RequestSent {
					require.NotEmpty(t, first.Error)
					require.True(t, again.Replayed, "the worker had committed")
				}
				require.NoError(t, b.end())
			})
		}
	}
}
