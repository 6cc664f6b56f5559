package scale

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestLongStorm(t *testing.T) {
	t.Parallel()
	o := StormOptions{Twins: 40, Conns: 4, Effect: 200 * time.Millisecond, Storms: 2, Rate: 50, Quiet: 200 * time.Millisecond}
	var out bytes.Buffer
	s := setup(t)
	s.out = &out
	require.NoError(t, storm(t.Context(), s, o))
	require.Contains(t, out.String(), "40 twins")
	for dedupers := range 2 {
		row, err := s.stormOn(t.Context(), o, 1+dedupers)
		require.NoError(t, err)
		require.GreaterOrEqual(t, row.slowest, o.Effect)
		require.Positive(t, row.quiet.Calls)
		require.Positive(t, row.stormy.Calls)
	}
}

func TestJudgeStorm(t *testing.T) {
	t.Parallel()

	first := dedup.Result[ticket]{Value: ticket{ID: 1}}
	replay := dedup.Result[ticket]{Value: ticket{ID: 1}, Replayed: true}
	recovered := dedup.Result[ticket]{Value: ticket{ID: 1}, Replayed: true, Recovered: true}
	other := dedup.Result[ticket]{Value: ticket{ID: 2}, Replayed: true}
	answers := func(all ...dedup.Result[ticket]) []dedup.Result[ticket] { return all }

	require.NoError(t, judgeStorm(1, answers(replay, first, replay)))
	require.NoError(t, judgeStorm(1, answers(replay, recovered)))
	require.ErrorContains(t, judgeStorm(2, answers(first, replay)), "2 effects")
	require.ErrorContains(t, judgeStorm(1, answers(first, first)), "2 first answers")
	require.ErrorContains(t, judgeStorm(1, answers(replay, replay)), "0 first answers")
	require.ErrorContains(t, judgeStorm(1, answers(first, other)), "different answers")
}

func TestStormFlags(t *testing.T) {
	t.Parallel()

	refused(t, StormCommand(), []string{"argument"})
}
