// Package plan says, from a seed alone, how each write of a recording is to be
// delivered: in how many rounds, to which workers at once, and with which
// faults. A plan does not depend on how earlier writes went, so both arms of a
// comparison get the same one.
package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what --faults lists: a fault, or a way to deliver twice at once.
type Kind string

const (
	// LostAnswer lets the server execute the COMMIT and loses its answer.
	LostAnswer Kind = "lost-answer"
	// CutBeforeCommit cuts the connection before the COMMIT reaches the server.
	CutBeforeCommit Kind = "cut-before-commit"
	// Terminate ends the backend while its transaction is inside the effect.
	Terminate Kind = "terminate"
	// Kill ends the worker's process inside the effect or around the COMMIT.
	Kill Kind = "kill"
	// DelayedCommit resets the client at once and delivers its COMMIT when a
	// retry already runs.
	DelayedCommit Kind = "delayed-commit"
	// LostReply loses the answer to the first round trip of a later delivery.
	LostReply Kind = "lost-reply"
	// CutConnection cuts the connection between client and worker once a delivery
	// has been sent. By way of the registry there is none.
	CutConnection Kind = "cut-connection"

	// BetweenNodes cuts the connection from one node of a cluster to another before a COMMIT or in
	// its answer. On a single server there is none.
	BetweenNodes Kind = "between-nodes"

	// Twins2 and Twins8 are rounds of 2 and of 8 deliveries at once. They are
	// counted as rounds, not as faults.
	Twins2 Kind = "twins2"
	Twins8 Kind = "twins8"
)

// kinds are all kinds, the ways to deliver last.
var kinds = [...]Kind{LostAnswer, CutBeforeCommit, Terminate, Kill, DelayedCommit, LostReply, CutConnection, BetweenNodes, Twins2, Twins8}

// All returns every kind in the order of every report.
func All() []Kind { return slices.Clone(kinds[:]) }

// Faults returns the kinds that are faults, in the order of every report.
func Faults() []Kind { return slices.Clone(kinds[:len(kinds)-2]) }

// Set is the kinds that a run may use.
type Set map[Kind]bool

// ParseSet reads a list such as "kill,lost-answer,twins8". "all" means every
// kind and "none" no kind: one delivery at a time, and nothing fails.
func ParseSet(list string) (Set, error) {
	set := Set{}
	for name := range strings.SplitSeq(list, ",") {
		switch kind := Kind(strings.TrimSpace(name)); {
		case kind == "all":
			for _, kind := range kinds {
				set[kind] = true
			}
		case kind == "none" && list == "none":
		case slices.Contains(kinds[:], kind):
			set[kind] = true
		default:
			return nil, fmt.Errorf("unknown fault %q; known are all, none, %s", name, Names())
		}
	}
	return set, nil
}

// Names lists all kinds for a help text.
func Names() string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}
