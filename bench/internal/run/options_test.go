package run

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/bounds"
)

// flagged are the options of a command line without flags.
func flagged() Options {
	o := defaults()
	o.flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

func TestDefaultsAndCheckAreValid(t *testing.T) {
	t.Parallel()

	o := flagged()
	require.NoError(t, o.validate())
	o.short(checkRounds, bounds.All())
	require.NoError(t, o.validate())
}

func TestValidate(t *testing.T) {
	t.Parallel()

	for flag, spoil := range map[string]func(*Options){
		"--rounds":   func(o *Options) { o.Rounds = 0 },
		"--duration": func(o *Options) { o.Duration = -1 },
		"--delays":   func(o *Options) { o.Delays = []time.Duration{-1} },
		"--clients":  func(o *Options) { o.Clients = nil },
		"--ways":     func(o *Options) { o.Ways = []string{"luck"} },
		"--kinds":    func(o *Options) { o.Kinds = []string{"luck"} },
		"--to":       func(o *Options) { o.Ways, o.To = []string{"do"}, "do-otel" },
	} {
		o := flagged()
		spoil(&o)
		require.ErrorContains(t, o.validate(), flag)
	}
}
