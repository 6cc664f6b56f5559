package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/bounds"
)

func TestDefaultsAndCheckAreValid(t *testing.T) {
	t.Parallel()

	o := defaults()
	require.NoError(t, o.validate())
	o.short(checkRounds, bounds.All())
	require.NoError(t, o.validate())
}

func TestValidate(t *testing.T) {
	t.Parallel()

	for flag, spoil := range map[string]func(*Options){
		"--rounds":   func(o *Options) { o.Rounds = 0 },
		"--duration": func(o *Options) { o.Duration, o.MinOps = 0, 0 },
		"--min-ops":  func(o *Options) { o.MinOps = -1 },
		"--delays":   func(o *Options) { o.Delays = []time.Duration{-1} },
		"--clients":  func(o *Options) { o.Clients = nil },
		"--ways":     func(o *Options) { o.Ways = []string{"luck"} },
	} {
		o := defaults()
		spoil(&o)
		require.ErrorContains(t, o.validate(), flag)
	}
}
