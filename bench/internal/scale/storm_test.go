package scale

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestStorm(t *testing.T) {
	t.Parallel()
	o := StormOptions{Twins: 40, Conns: 4, Effect: 200 * time.Millisecond, Storms: 2, Rate: 50, Quiet: 200 * time.Millisecond}
	r, err := storm(t.Context(), setup(t), o)
	require.NoError(t, err)
	require.Len(t, r.Rows, 2)
	for i, row := range r.Rows {
		require.Equal(t, i+1, row.Dedupers)
		require.GreaterOrEqual(t, row.Slowest, o.Effect)
		require.Positive(t, row.Quiet.Calls)
		require.Positive(t, row.Stormy.Calls)
	}
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Contains(t, out.String(), "40 twins")
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
