package plan

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

func everything(t *testing.T) Set {
	t.Helper()
	set, err := ParseSet("all")
	require.NoError(t, err)
	return set
}

func TestDrawIsRepeatable(t *testing.T) {
	t.Parallel()
	set := everything(t)
	other := 0
	for i := range 200 {
		ref := fmt.Sprintf("session/%d/call", i)
		first := Draw(1, ref, false, set)
		require.Equal(t, first, Draw(1, ref, false, set))
		if fmt.Sprint(first) != fmt.Sprint(Draw(2, ref, false, set)) {
			other++
		}
	}
	require.Greater(t, other, 190, "another seed is another plan")
}

// TestDrawIsFrozen lets a change of the plans be noticed: a seed in an issue
// must mean the same next year.
func TestDrawIsFrozen(t *testing.T) {
	t.Parallel()
	require.Equal(t, Write{
		Rounds: []Round{
			{Workers: []int{2, 6}, Faults: []Fault{{Kill, EffectEnds}, {CutBeforeCommit, ""}}},
		},
		Last: 7,
	}, Draw(1, "session/2/call", false, without(everything(t), CutConnection, BetweenNodes)))

	require.Equal(t, Write{
		Rounds: []Round{
			{Workers: []int{4, 1, 6, 2, 3, 5, 7, 0}, Faults: []Fault{{Terminate, EffectEnds}, {Kill, CommitSent}, {CutConnection, AnswerBroken}}},
			{Workers: []int{3}, Faults: []Fault{{LostReply, Cut}, {CutConnection, RequestSent}}},
			{Workers: []int{4}, Faults: []Fault{{CutConnection, AnswerLost}}},
		},
		Last: 0,
	}, Draw(1, "session/8/call", false, without(everything(t), BetweenNodes)))
}

// TestCutsAddToAPlan shows that all else of a plan is the same with cuts and
// without, whether they are between client and worker or between nodes.
func TestCutsAddToAPlan(t *testing.T) {
	t.Parallel()
	set := everything(t)
	for i := range 200 {
		ref := fmt.Sprintf("session/%d/call", i)
		plain := Draw(1, ref, false, without(set, CutConnection, BetweenNodes))
		cut := Draw(1, ref, false, without(set, BetweenNodes))
		requireAdded(t, plain, cut)
		requireAdded(t, cut, Draw(1, ref, false, set))
	}
}

// requireAdded requires that a plan is another one with further faults.
func requireAdded(t *testing.T, less, more Write) {
	t.Helper()
	require.Equal(t, less.Last, more.Last)
	for at := range less.Rounds {
		require.Equal(t, less.Rounds[at].Workers, more.Rounds[at].Workers)
		faults := len(less.Rounds[at].Faults)
		require.ElementsMatch(t, less.Rounds[at].Faults, more.Rounds[at].Faults[:faults])
	}
}

func without(set Set, kinds ...Kind) Set {
	less := maps.Clone(set)
	for _, kind := range kinds {
		delete(less, kind)
	}
	return less
}

func TestDrawIsSound(t *testing.T) {
	t.Parallel()
	set := everything(t)
	seen := map[Kind]int{}
	deliveries, faults, cuts, between := 0, 0, 0, 0
	const writes = 2000
	for i := range writes {
		refused := i%6 == 0
		w := Draw(uint64(i), "ref", refused, set)
		require.NotEmpty(t, w.Rounds)
		require.LessOrEqual(t, len(w.Rounds), maxRounds)
		for at, round := range w.Rounds {
			require.Contains(t, []int{1, 2, 8}, len(round.Workers))
			distinct := map[int]bool{}
			for _, worker := range round.Workers {
				require.True(t, worker >= 0 && worker < Workers)
				distinct[worker] = true
			}
			require.Len(t, distinct, len(round.Workers), "never one process twice")
			deliveries += len(round.Workers)
			for _, fault := range round.Faults {
				seen[fault.Kind]++
				if fault.Kind == CutConnection {
					cuts++
					require.Contains(t, []How{RequestSent, AnswerLost, AnswerBroken}, fault.How)
					continue
				}
				if fault.Kind == BetweenNodes {
					between++
					require.Zero(t, at)
					require.Contains(t, []How{CommitUnsent, Reset, Close, Cut}, fault.How)
					continue
				}
				faults++
				require.Equal(t, at > 0, fault.Kind == LostReply, "what needs a COMMIT comes first")
				require.False(t, refused && fault.How == EffectEnds)
			}
		}
	}
	for _, kind := range Faults() {
		require.Positive(t, seen[kind], kind)
	}
	require.InDelta(t, 11.3, float64(deliveries)/writes, 1)
	require.InDelta(t, 3, float64(faults)/writes, 0.5)
	require.InDelta(t, 1.2, float64(cuts)/writes, 0.1)
	require.InDelta(t, 0.6, float64(between)/writes, 0.05)
}

func TestDrawKeepsToTheSet(t *testing.T) {
	t.Parallel()
	for _, only := range All() {
		t.Run(string(only), func(t *testing.T) {
			t.Parallel()
			found := false
			for i := range 300 {
				for _, round := range Draw(uint64(i), "ref", false, Set{only: true}).Rounds {
					size := len(round.Workers)
					require.True(t, size == 1 || size == 2 && only == Twins2 || size == 8 && only == Twins8)
					found = found || size > 1
					for _, fault := range round.Faults {
						require.Equal(t, only, fault.Kind)
						found = true
					}
				}
			}
			require.True(t, found)
		})
	}
}

func TestParseSet(t *testing.T) {
	t.Parallel()
	set, err := ParseSet("kill, twins8")
	require.NoError(t, err)
	require.Equal(t, Set{Kill: true, Twins8: true}, set)

	none, err := ParseSet("none")
	require.NoError(t, err)
	require.Empty(t, none)

	for _, list := range []string{"", "kill,", "fire", "none,kill", "Kill"} {
		_, err := ParseSet(list)
		require.Error(t, err, list)
	}
}
