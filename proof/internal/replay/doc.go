// Package replay is the command `proof replay`. It replays recorded sessions of agents on a real
// Postgres with an unreliable network, and checks every answer and every effect against the
// recording.
//
// The driver is this process. It starts eight worker processes, each with a fault-injecting proxy
// before the server. It delivers each write by its plan: several times and to several processes at
// once, while connections are cut, backends terminated and processes killed. As an orchestrator
// does, it delivers again after a missing answer.
//
// A delivery reaches the tools of a worker through the registry in its process, or
// through its HTTP or MCP routes, over a connection that may be cut.
//
// Package worker is that process, and package ledger has its tools:
//
//	command, run          the command line, and what it carries out
//	database              the server, and the database of an arm
//	plan, draw            what is to happen to each write, from the seed
//	play, session         one arm: calls, rounds, deliveries
//	place, faults         the driver's hold on the workers, and what befalls them
//	judge                   what is compared
//	result, table, page   the figures, as JSON, text and a page
package replay
