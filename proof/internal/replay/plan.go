package replay

import (
	"fmt"
	"slices"
	"strings"
)

// workerCount is the number of worker processes of a plan.
const workerCount = 8

// writePlan is the plan of a write's deliveries. It depends on the seed and not on earlier writes,
// so both arms of a comparison get the same plan.
type writePlan struct {
	rounds []round
	// last is the worker of the last delivery, which has no faults.
	last int
}

// round is deliveries that run concurrently, each at its own worker, and their faults. Faults with
// the same target hit in their order.
type round struct {
	workers []int
	faults  []fault
}

// fault is one fault. It hits the delivery of the round that reaches its target first.
type fault struct {
	kind faultKind
	how  how
}

// faultKind is an element of --faults: a fault, or a way to deliver twice concurrently.
type faultKind string

const (
	// lostAnswer lets the server execute the COMMIT and loses its answer.
	lostAnswer faultKind = "lost-answer"
	// cutBeforeCommit cuts the connection before the COMMIT reaches the server.
	cutBeforeCommit faultKind = "cut-before-commit"
	// terminate ends the backend while its transaction is inside the effect.
	terminate faultKind = "terminate"
	// kill ends the worker's process in the effect or around the COMMIT.
	kill faultKind = "kill"
	// delayedCommit resets the client at once and delivers its COMMIT while a retry runs.
	delayedCommit faultKind = "delayed-commit"
	// lostReply loses the answer to the first round trip of a later delivery.
	lostReply faultKind = "lost-reply"
	// cutConnection cuts the connection between client and worker after the request. The registry
	// has no such connection.
	cutConnection faultKind = "cut-connection"

	// twins2 and twins8 are rounds of 2 and of 8 concurrent deliveries. They count as rounds and
	// not as faults.
	twins2 faultKind = "twins2"
	twins8 faultKind = "twins8"
)

// faultKinds are the faults, in the order of every report. allKinds has the rounds too.
var (
	faultKinds = allKinds[:len(allKinds)-2]
	allKinds   = [...]faultKind{
		lostAnswer, cutBeforeCommit, terminate, kill, delayedCommit, lostReply, cutConnection, twins2, twins8,
	}
)

// how is a variant of a kind.
type how string

const (
	// lostAnswer and lostReply.
	reset  how = "reset" // the connection breaks with a RST
	closed how = "close" // the connection ends with a FIN
	cut    how = "cut"   // the answer ends in its middle

	// terminate and kill: the state of the effect.
	effectBegins how = "effect-begins" // none of its statements has run
	effectEnds   how = "effect-ends"   // all but the last have run

	// kill: the state of the COMMIT.
	commitUnsent how = "commit-unsent" // it never reaches the server
	commitSent   how = "commit-sent"   // it is on its way and arrives
	committed    how = "committed"     // it was executed, the answer is on its way

	// cutConnection: the state of the delivery.
	requestSent  how = "request-sent"  // the request was sent, and no byte of the answer has come
	answerLost   how = "answer-lost"   // the answer has come, and none of it is read
	answerBroken how = "answer-broken" // half of the answer is read
)

// kindSet is the allowed kinds of a run.
type kindSet map[faultKind]bool

// parseKinds reads a list such as "kill,lost-answer,twins8". "all" is every kind. "none" is no
// kind: one delivery at a time and no fault.
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

// names lists the values of a flag for its help.
func names[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ", ")
}
