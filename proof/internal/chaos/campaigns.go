package chaos

import (
	"context"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/chaos/citus"
	"github.com/tooldedup/dedup/proof/internal/chaos/history"
	"github.com/tooldedup/dedup/proof/internal/chaos/kill"
	"github.com/tooldedup/dedup/proof/internal/chaos/lostcommit"
	"github.com/tooldedup/dedup/proof/internal/chaos/orders"
	"github.com/tooldedup/dedup/proof/internal/chaos/outside"
	"github.com/tooldedup/dedup/proof/internal/chaos/reissue"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// campaign is one way to try to break the promise.
type campaign struct {
	name, what string
	// calls is the number of deliveries, or kills, of the long form, and short that of the short
	// form.
	calls, short int
	// server is the server that the campaign needs.
	server pgserver.Options
	// missing returns the requirement that this machine lacks, or "". It is nil if the campaign has
	// no special requirement.
	missing func() string
	run     func(context.Context, *lab.Lab, lab.Params, *lab.Score) error
}

var (
	shared  = pgserver.Options{}              // DEDUP_DATABASE_URL may name the server
	private = pgserver.Options{Private: true} // the campaign kills or pauses the server
)

// campaigns are all campaigns, in the order of `proof chaos all`.
var campaigns = []campaign{
	{"lost-commit", "faults on COMMIT: its answer reset, closed, cut, held or swallowed, COMMIT itself dropped or late", 1_000_000, 1_500, shared, nil, lostcommit.Run},
	{"kill-process", "processes killed at random moments of their calls", 2_000, 30, shared, nil, kill.Processes},
	{"kill-server", "the server killed under load, and recovered", 100, 2, private, nil, kill.Servers},
	{"pause-server", "the server paused under load, so that callers give up and call again while their transactions are open", 300, 3, private, nil, kill.Pauses},
	{"failover", "the standby cut off under load, the primary killed and the standby promoted, a synchronous one and an asynchronous one", 20, 1, private, nil, kill.Failovers},
	{"history", "histories of concurrent callers under every fault, checked with Porcupine, and five planted bugs", 1_000_000, 1_500, shared, nil, history.Run},
	{"orders", "every order of the round trips of calls of one identity, with every fault at each, beside Reset and Sweep, and fifteen planted bugs", 0, 0, shared, nil, orders.Run},
	{"mixed-storm", "five ways to call, with locks and with claims, every isolation level and three exec modes on a few keys with short retentions, beside Sweep and Reset", 0, 0, shared, nil, history.RunStorm},
	{"external", "effects outside the database: worker processes killed and halted at every step, the server restarted, requests lost, delayed and denied; fourteen kinds of provider, twelve planted mistakes", 20_000, 300, pgserver.Options{Private: true, Durable: true}, nil, outside.Run},
	{"mcp", "an MCP client that cancels, drops and repeats calls to two servers behind a balancer that cuts connections and delivers twice; servers killed", 10_000, 400, shared, nil, reissue.Run},
	{"citus", "five ways to call through all nodes of a Citus cluster, by scope and by schema: COMMITs lost before and between the nodes, backends ended, nodes restarted", 200_000, 3_000, shared, citusdb.Missing, citus.Run},
}

// Names returns the campaigns' names, in the order of `proof chaos all`.
func Names() []string {
	names := make([]string, len(campaigns))
	for i, c := range campaigns {
		names[i] = c.name
	}
	return names
}
