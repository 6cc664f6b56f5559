package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// testStorm has both sides make the same calls at once, in every way and in orders of their
// own. A key takes effect once, and all its calls have one answer.
func testStorm(t *testing.T, w *world) {
	const keys, together, perBatch = 500, 8, 10
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var all []string
	for i := range keys {
		all = append(all, fmt.Sprintf("key %d", i))
	}
	type told struct {
		keys []string
		answer
		err error
	}
	var mu sync.Mutex
	var answers []told
	var running sync.WaitGroup
	for n, side := range []string{"old", "new"} {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		var commands []command
		for _, way := range ways {
			mine := slices.Clone(all)
			random.Shuffle(keys, func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			size := 1
			if way == "batch" {
				size = perBatch
			}
			for part := range slices.Chunk(mine, size) {
				commands = append(commands, command{Op: way, Keys: part, Args: args})
			}
		}
		random.Shuffle(len(commands), func(i, j int) { commands[i], commands[j] = commands[j], commands[i] })
		work := make(chan command, len(commands))
		for _, c := range commands {
			work <- c
		}
		close(work)
		for range together {
			running.Go(func() {
				for c := range work {
					a, err := w.sides[side].begin(c)()
					mu.Lock()
					answers = append(answers, told{c.Keys, a, err})
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()

	first, executed, by := map[string]effect{}, map[string]int{}, map[string]int{}
	for _, told := range answers {
		require.NoError(t, told.err)
		require.Len(t, told.Results, len(told.keys))
		for i, r := range told.Results {
			key := told.keys[i]
			require.Empty(t, r.Err, key)
			if _, known := first[key]; !known {
				first[key] = r.Effect
				by[r.Effect.Side]++
			}
			require.Equal(t, first[key], r.Effect, key)
			if !r.Replayed {
				executed[key]++
			}
		}
	}
	for _, key := range all {
		require.Equal(t, 1, executed[key], key)
		require.Equal(t, 1, w.effects(t, key), key)
	}
	t.Logf("%d calls of %d keys; of the effects are %v", 2*len(ways)*keys, keys, by)
}
