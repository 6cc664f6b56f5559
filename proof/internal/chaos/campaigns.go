package chaos

import (
	"context"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/chaos/abuse"
	"github.com/tooldedup/dedup/proof/internal/chaos/citus"
	"github.com/tooldedup/dedup/proof/internal/chaos/everybyte"
	"github.com/tooldedup/dedup/proof/internal/chaos/history"
	"github.com/tooldedup/dedup/proof/internal/chaos/kill"
	"github.com/tooldedup/dedup/proof/internal/chaos/lostcommit"
	"github.com/tooldedup/dedup/proof/internal/chaos/matrix"
	"github.com/tooldedup/dedup/proof/internal/chaos/orders"
	"github.com/tooldedup/dedup/proof/internal/chaos/outside"
	"github.com/tooldedup/dedup/proof/internal/chaos/reissue"
	"github.com/tooldedup/dedup/proof/internal/chaos/secrets"
	"github.com/tooldedup/dedup/proof/internal/chaos/storm"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// campaign is one way to try to break the promise.
type campaign struct {
	name, what string
	// calls are the deliveries of the long form and of the short one, or the
	// kills.
	calls, short int
	// server is what the campaign runs on.
	server pgserver.Options
	// missing says what the campaign needs and does not have here; nil where it needs nothing.
	missing func() string
	run     func(context.Context, *lab.Lab, lab.Params, *lab.Score) error
}

var (
	shared  = pgserver.Options{}              // the server that DEDUP_DATABASE_URL names will do
	private = pgserver.Options{Private: true} // it is killed or paused
)

// campaigns are all of them, in the order in which `proof chaos all` runs them.
var campaigns = []campaign{
	{"lost-commit", "faults on COMMIT: its answer reset, closed, cut, held or swallowed, COMMIT itself dropped or late", 1_000_000, 3_000, shared, nil, lostcommit.Run},
	{"lost-commit-gorm", "lost-commit with effects that write through gorm on database/sql", 100_000, 1_000, shared, nil, lostcommit.RunGorm},
	{"every-byte", "the connection cut behind every byte of a call, in each direction, exec mode and way to call", 0, 0, shared, nil, everybyte.Run},
	{"kill-process", "processes killed at random moments of their calls", 2_000, 30, shared, nil, kill.Processes},
	{"kill-server", "the server killed under load, and recovered", 100, 2, private, nil, kill.Servers},
	{"pause-server", "the server paused under load, so that callers give up and call again while their transactions are open", 300, 3, private, nil, kill.Pauses},
	{"failover", "the primary killed under load and its standby promoted, a synchronous one and an asynchronous one", 20, 1, private, nil, kill.Failovers},
	{"history", "histories of concurrent callers under every fault, checked with Porcupine, and five planted bugs", 1_000_000, 2_500, shared, nil, history.Run},
	{"orders", "every order of the round trips of calls of one identity, with every fault at each, beside Reset and Sweep, and fifteen planted bugs", 0, 0, shared, nil, orders.Run},
	{"matrix", "isolation levels, lock and claim, exec modes, directly and through PgBouncer, on the servers of --bin-dir", 0, 0, shared, nil, matrix.Run},
	{"abuse", "effects that break their own transaction, in every exec mode", 0, 0, shared, nil, abuse.Run},
	{"storm", "storms of twins, many tools and nested calls on pools of 2 to 8", 0, 0, shared, nil, storm.Run},
	{"mixed-storm", "five ways to call, both orders, every isolation level and three exec modes on a few keys with short retentions, beside Sweep and Reset", 0, 0, shared, nil, history.RunStorm},
	{"external", "tools that act outside of the database: worker processes killed and halted at every step, the server restarted, a provider that loses, delays and denies; fourteen kinds of provider, twelve planted mistakes", 20_000, 300, pgserver.Options{Private: true, Durable: true}, nil, outside.Run},
	{"mcp", "an MCP client that cancels, drops and issues again, over two servers behind a balancer that cuts connections and delivers twice; servers killed", 10_000, 400, shared, nil, reissue.Run},
	{"citus", "five ways to call through all nodes of a Citus cluster, by scope and by schema: COMMITs lost before and between the nodes, backends ended, nodes restarted", 200_000, 3_000, shared, citusdb.Missing, citus.Run},
	{"secrets", "canaries in keys, arguments and results, looked for in errors, events and the server's log", 0, 0, pgserver.Options{Private: true, Settings: secrets.Settings()}, nil, secrets.Run},
}

// Names returns the campaigns' names, in the order in which all of them run.
func Names() []string {
	names := make([]string, len(campaigns))
	for i, c := range campaigns {
		names[i] = c.name
	}
	return names
}
