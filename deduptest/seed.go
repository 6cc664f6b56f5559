package deduptest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
)

// seedEnv names the environment variable that repeats a run.
const seedEnv = "DEDUPTEST_SEED"

// seedOf returns the seed of a run, which is never zero.
func seedOf(opts *Options) (uint64, error) {
	if opts != nil && opts.Seed != 0 {
		return opts.Seed, nil
	}
	text := os.Getenv(seedEnv)
	if text == "" {
		return rand.Uint64()%1_000_000 + 1, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("%s is %q; it must be a positive number, as a failure names it", seedEnv, text)
	}
	return seed, nil
}

// randomFor gives each scenario numbers of its own, so that leaving one out does
// not change the others.
func randomFor(seed uint64, s Scenario) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
