package chaos

import (
	"context"

	"github.com/tooldedup/dedup/cmd/dedup/internal/chaos/lab"
	"github.com/tooldedup/dedup/cmd/dedup/internal/chaos/lostcommit"
	"github.com/tooldedup/dedup/cmd/dedup/internal/chaos/score"
)

// campaign is one way to try to break the promise.
type campaign struct {
	name, what string
	// calls are the deliveries of the long form and of the short one.
	calls, short int
	run          func(context.Context, *lab.Lab, lab.Params) (*score.Score, error)
}

// campaigns are all of them, in the order in which `dedup chaos all` runs them.
var campaigns = []campaign{
	{"lost-commit", "faults on COMMIT: its answer reset, closed, cut, held or swallowed, COMMIT itself dropped or late", 1_000_000, 3_000, lostcommit.Run},
}
