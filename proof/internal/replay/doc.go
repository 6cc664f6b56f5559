// Package replay is the command `proof replay`: it replays recorded sessions of agents on a real
// Postgres as an unreliable world would deliver them, and checks every answer and every effect
// against the recording.
//
// The driver is this process. It starts eight worker processes, each with a
// fault-injecting proxy between it and the server, and delivers each write as
// its plan says: several times, to several processes at once, while connections
// are cut, backends terminated and processes killed. An orchestrator's rules
// hold: what was not answered is delivered again.
//
// On a Citus cluster each domain is a tenant in a distributed schema of its own, the workers
// connect to all nodes, and connections between nodes are cut too.
//
// A delivery reaches the tools of a worker through the registry in its process, or
// through its HTTP or MCP routes, over a connection that may be cut.
//
// Package worker is that process, package ledger its tools, and package payment what they have
// outside of the database:
//
//	command, run          the command line, and what it carries out
//	database              the server, and the database of an arm
//	plan, draw            what is to happen to each write, from the seed
//	play, session         one arm: calls, rounds, deliveries
//	place, faults         the driver's hold on the workers, and what befalls them
//	judge, metrics, paying  what is compared
//	result, table, page   the figures, as JSON, text and a page
package replay
