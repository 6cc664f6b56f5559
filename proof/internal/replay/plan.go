package replay

import (
	"fmt"
	"slices"
	"strings"
)

// workerCount is the number of processes that a plan delivers to.
const workerCount = 8

// writePlan says how a write is to be delivered. It depends on the seed alone and not on how earlier writes
// went, so both arms of a comparison get the same one.
type writePlan struct {
	rounds []round
	// last is the worker of the delivery without faults that follows.
	last int
}

// round is deliveries at once, each to a worker of its own, and the faults that befall them, in the order in which
// those that aim at one place come.
type round struct {
	workers []int
	faults  []fault
}

// fault is one fault. It hits whichever delivery of the round comes first to where it aims.
type fault struct {
	kind faultKind
	how  how
}

// faultKind is what --faults lists: a fault, or a way to deliver twice at once.
type faultKind string

const (
	// lostAnswer lets the server execute the COMMIT and loses its answer.
	lostAnswer faultKind = "lost-answer"
	// cutBeforeCommit cuts the connection before the COMMIT reaches the server.
	cutBeforeCommit faultKind = "cut-before-commit"
	// terminate ends the backend while its transaction is inside the effect.
	terminate faultKind = "terminate"
	// kill ends the worker's process inside the effect or around the COMMIT.
	kill faultKind = "kill"
	// delayedCommit resets the client at once and delivers its COMMIT when a
	// retry already runs.
	delayedCommit faultKind = "delayed-commit"
	// lostReply loses the answer to the first round trip of a later delivery.
	lostReply faultKind = "lost-reply"
	// cutConnection cuts the connection between client and worker once a delivery
	// has been sent. By way of the registry there is none.
	cutConnection faultKind = "cut-connection"
	// betweenNodes cuts the connection from one node of a cluster to another before a COMMIT or in
	// its answer. On a single server there is none.
	betweenNodes faultKind = "between-nodes"

	// twins2 and twins8 are rounds of 2 and of 8 deliveries at once. They are
	// counted as rounds, not as faults.
	twins2 faultKind = "twins2"
	twins8 faultKind = "twins8"
)

// faultKinds are those that are faults, in the order of every report, and allKinds the ways to deliver too.
var (
	faultKinds = allKinds[:len(allKinds)-2]
	allKinds   = [...]faultKind{
		lostAnswer, cutBeforeCommit, terminate, kill, delayedCommit, lostReply, cutConnection, betweenNodes, twins2, twins8,
	}
)

// how is a variant of a kind.
type how string

const (
	// lostAnswer, lostReply and betweenNodes.
	reset  how = "reset" // the connection breaks with a RST
	closed how = "close" // the connection ends with a FIN
	cut    how = "cut"   // the answer ends in its middle

	// terminate and kill: where the effect stands when it happens.
	effectBegins how = "effect-begins" // none of its statements has run
	effectEnds   how = "effect-ends"   // all but the last have run

	// kill and betweenNodes: where the COMMIT stands when it happens.
	commitUnsent how = "commit-unsent" // it never reaches the server
	commitSent   how = "commit-sent"   // it is on its way and arrives
	committed    how = "committed"     // it was executed, the answer is on its way

	// cutConnection: where the delivery stands when it happens.
	requestSent  how = "request-sent"  // it has been sent, nothing of the answer has come
	answerLost   how = "answer-lost"   // the answer has come, and nothing of it is read
	answerBroken how = "answer-broken" // half of the answer is read
)

// kindSet is the kinds that a run may use.
type kindSet map[faultKind]bool

// parseKinds reads a list such as "kill,lost-answer,twins8". "all" means every
// kind and "none" no kind: one delivery at a time, and nothing fails.
func parseKinds(list string) (kindSet, error) {
	set := kindSet{}
	for name := range strings.SplitSeq(list, ",") {
		switch kind := faultKind(strings.TrimSpace(name)); {
		case kind == "all":
			for _, kind := range allKinds {
				set[kind] = true
			}
		case kind == "none" && list == "none":
		case slices.Contains(allKinds[:], kind):
			set[kind] = true
		default:
			return nil, fmt.Errorf("unknown fault %q; known are all, none, %s", name, names(allKinds[:]))
		}
	}
	return set, nil
}

// names lists what a flag may be, for a help text.
func names[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ", ")
}
