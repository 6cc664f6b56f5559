package replay

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func everything(t *testing.T) kindSet {
	t.Helper()
	set, err := parseKinds("all")
	require.NoError(t, err)
	return set
}

func TestDrawIsRepeatable(t *testing.T) {
	t.Parallel()
	set := everything(t)
	other := 0
	for i := range 200 {
		ref := fmt.Sprintf("session/%d/call", i)
		first := draw(1, ref, false, set)
		require.Equal(t, first, draw(1, ref, false, set))
		if fmt.Sprint(first) != fmt.Sprint(draw(2, ref, false, set)) {
			other++
		}
	}
	require.Greater(t, other, 190, "another seed is another plan")
}

// TestDrawIsFrozen notices a change of the plans: a seed in an issue must mean the same next year.
func TestDrawIsFrozen(t *testing.T) {
	t.Parallel()
	require.Equal(t, writePlan{
		rounds: []round{
			{workers: []int{2, 6}, faults: []fault{{kill, effectEnds}, {cutBeforeCommit, ""}}},
		},
		last: 7,
	}, draw(1, "session/2/call", false, without(everything(t), cutConnection)))

	require.Equal(t, writePlan{
		rounds: []round{
			{workers: []int{4, 1, 6, 2, 3, 5, 7, 0}, faults: []fault{{terminate, effectEnds}, {kill, commitSent}, {cutConnection, answerBroken}}},
			{workers: []int{3}, faults: []fault{{lostReply, cut}, {cutConnection, requestSent}}},
			{workers: []int{4}, faults: []fault{{cutConnection, answerLost}}},
		},
		last: 0,
	}, draw(1, "session/8/call", false, everything(t)))
}

// TestCutsAddToAPlan shows that the rest of a plan does not depend on cuts.
func TestCutsAddToAPlan(t *testing.T) {
	t.Parallel()
	set := everything(t)
	for i := range 200 {
		ref := fmt.Sprintf("session/%d/call", i)
		requireAdded(t, draw(1, ref, false, without(set, cutConnection)), draw(1, ref, false, set))
	}
}

// requireAdded requires that a plan is another plan with additional faults.
func requireAdded(t *testing.T, less, more writePlan) {
	t.Helper()
	require.Equal(t, less.last, more.last)
	for at := range less.rounds {
		require.Equal(t, less.rounds[at].workers, more.rounds[at].workers)
		faults := len(less.rounds[at].faults)
		require.ElementsMatch(t, less.rounds[at].faults, more.rounds[at].faults[:faults])
	}
}

func without(set kindSet, kinds ...faultKind) kindSet {
	less := maps.Clone(set)
	for _, kind := range kinds {
		delete(less, kind)
	}
	return less
}

func TestDrawIsSound(t *testing.T) {
	t.Parallel()
	set := everything(t)
	seen := map[faultKind]int{}
	deliveries, faults, cuts := 0, 0, 0
	const writes = 2000
	for i := range writes {
		refused := i%6 == 0
		w := draw(uint64(i), "ref", refused, set)
		require.NotEmpty(t, w.rounds)
		require.LessOrEqual(t, len(w.rounds), maxRounds)
		for at, planned := range w.rounds {
			require.Contains(t, []int{1, 2, 8}, len(planned.workers))
			distinct := map[int]bool{}
			for _, worker := range planned.workers {
				require.True(t, worker >= 0 && worker < workerCount)
				distinct[worker] = true
			}
			require.Len(t, distinct, len(planned.workers), "never one process twice")
			deliveries += len(planned.workers)
			for _, fault := range planned.faults {
				seen[fault.kind]++
				if fault.kind == cutConnection {
					cuts++
					require.Contains(t, []how{requestSent, answerLost, answerBroken}, fault.how)
					continue
				}
				faults++
				require.Equal(t, at > 0, fault.kind == lostReply, "what needs a COMMIT comes first")
				require.False(t, refused && fault.how == effectEnds)
			}
		}
	}
	for _, kind := range faultKinds {
		require.Positive(t, seen[kind], kind)
	}
	require.InDelta(t, 11.3, float64(deliveries)/writes, 1)
	require.InDelta(t, 3, float64(faults)/writes, 0.5)
	require.InDelta(t, 1.2, float64(cuts)/writes, 0.1)
}

func TestDrawKeepsToTheSet(t *testing.T) {
	t.Parallel()
	for _, only := range allKinds {
		t.Run(string(only), func(t *testing.T) {
			t.Parallel()
			found := false
			for i := range 300 {
				for _, planned := range draw(uint64(i), "ref", false, kindSet{only: true}).rounds {
					size := len(planned.workers)
					require.True(t, size == 1 || size == 2 && only == twins2 || size == 8 && only == twins8)
					found = found || size > 1
					for _, fault := range planned.faults {
						require.Equal(t, only, fault.kind)
						found = true
					}
				}
			}
			require.True(t, found)
		})
	}
}

func TestParseKinds(t *testing.T) {
	t.Parallel()
	set, err := parseKinds("kill, twins8")
	require.NoError(t, err)
	require.Equal(t, kindSet{kill: true, twins8: true}, set)

	none, err := parseKinds("none")
	require.NoError(t, err)
	require.Empty(t, none)

	for _, list := range []string{"", "kill,", "fire", "none,kill", "Kill"} {
		_, err := parseKinds(list)
		require.Error(t, err, list)
	}
}
