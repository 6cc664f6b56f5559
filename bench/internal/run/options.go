package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/tooldedup/dedup/bench/internal/bounds"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// Options says what is measured, and how long.
type Options struct {
	Rounds      int
	Duration    time.Duration // of a cell in a round
	Delays      []time.Duration
	Clients     []int
	Ways        []string // none means all
	Kinds       []string // of calls; none means all
	To          string   // the way that the ratios are to
	JSON        string   // a file, or nothing
	Check       bool
	RedisFolder string

	minOps  int // of a cell in a round
	seeds   int // calls that are made first, to be replayed
	trips   int // operations of which the round trips are counted
	costOps int // operations over which the other costs are averaged

	// wants chooses what is loaded; nil means everything.
	wants func(way string, kind report.Kind, delay time.Duration, clients int) bool
}

func defaults() Options {
	return Options{To: way.Base, minOps: 15, seeds: 2000, trips: 31, costOps: 500}
}

func (o *Options) flags(flags *pflag.FlagSet) {
	delays := []time.Duration{0, 250 * time.Microsecond, 500 * time.Microsecond, 2 * time.Millisecond}
	flags.IntVar(&o.Rounds, "rounds", 9, "rounds; medians are taken over them")
	flags.DurationVar(&o.Duration, "duration", 300*time.Millisecond, "how long a way is loaded in one round")
	flags.DurationSliceVar(&o.Delays, "delays", delays, "delays to the servers, each way; 0 is the loopback without a proxy")
	flags.IntSliceVar(&o.Clients, "clients", []int{1, 16}, "numbers of clients that call at the same time")
	flags.StringSliceVar(&o.Ways, "ways", nil, "ways to measure; all where none is named")
	flags.StringSliceVar(&o.Kinds, "kinds", nil, "kinds of calls to measure: first, replay, one-key; all where none is named")
	flags.StringVar(&o.To, "to", o.To, "`way` that the ratios are to, its calls of the same kind; where it has none, first calls of the first way")
	flags.StringVar(&o.JSON, "json", "", "write everything that was measured to this file")
	flags.StringVar(&o.RedisFolder, "redis", ".cache/redis", "folder into which Redis was unpacked, where it is not installed")
	flags.BoolVar(&o.Check, "check", false, "a short run that is compared with the bounds; exit code 1 if one is broken")
}

// The rounds of a check, and of what is measured again because it broke a bound.
const (
	checkRounds = 31
	againRounds = 41
)

// short is what --check measures: what the bounds are about, in under a minute.
func (o *Options) short(rounds int, list []bounds.Bound) {
	// Many short rounds rather than few long ones: a neighbour's burst spoils
	// one of them, and the median leaves it out. And the shorter a round, the
	// nearer a way is to the base that it is compared with.
	o.Rounds, o.Duration, o.minOps = rounds, 60*time.Millisecond, 10
	o.Delays = []time.Duration{0, 500 * time.Microsecond}
	o.Clients = []int{1, 16}
	o.Ways, o.wants = bounds.Ways(list), bounds.Wants(list)
	o.seeds, o.trips, o.costOps = 1000, 11, 200
}

func (o *Options) validate() error {
	switch {
	case o.Rounds < 1 || o.Duration < 0:
		return errors.New("--rounds must be at least 1, and --duration not negative")
	case len(o.Delays) == 0 || slices.Min(o.Delays) < 0:
		return errors.New("--delays must name at least one, and none that is negative")
	case len(o.Clients) == 0 || slices.Min(o.Clients) < 1:
		return errors.New("--clients must name at least one, and none below 1")
	}
	for _, kind := range o.Kinds {
		if !slices.Contains([]report.Kind{report.First, report.Replay, report.OneKey}, report.Kind(kind)) {
			return fmt.Errorf("--kinds: there is no kind %q", kind)
		}
	}
	ways, err := way.Choose(o.Ways)
	if err != nil {
		return fmt.Errorf("--ways: %w", err)
	}
	if !slices.ContainsFunc(ways, func(w way.Way) bool { return w.Name == o.To }) {
		return fmt.Errorf("--to: %q is none of the ways that are measured", o.To)
	}
	return nil
}
