package plan

// Workers is the number of processes that a plan delivers to.
const Workers = 8

// Write is the plan of one write.
type Write struct {
	Rounds []Round
	// Last is the worker of the delivery without faults that follows.
	Last int
}

// Round is deliveries at once and the faults that befall them.
type Round struct {
	// Workers are different from each other.
	Workers []int
	// Faults are in the order in which those that aim at one place come.
	Faults []Fault
}

// Fault is one fault. It hits whichever delivery of the round comes first to
// where it aims.
type Fault struct {
	Kind Kind
	How  How
}

// How is a variant of a kind.
type How string

const (
	// LostAnswer, LostReply and BetweenNodes.
	Reset How = "reset" // the connection breaks with a RST
	Close How = "close" // the connection ends with a FIN
	Cut   How = "cut"   // the answer ends in its middle

	// Terminate and Kill: where the effect stands when it happens.
	EffectBegins How = "effect-begins" // none of its statements has run
	EffectEnds   How = "effect-ends"   // all but the last have run

	// Kill and BetweenNodes: where the COMMIT stands when it happens.
	CommitUnsent How = "commit-unsent" // it never reaches the server
	CommitSent   How = "commit-sent"   // it is on its way and arrives
	Committed    How = "committed"     // it was executed, the answer is on its way

	// CutConnection: where the delivery stands when it happens.
	RequestSent  How = "request-sent"  // it has been sent, nothing of the answer has come
	AnswerLost   How = "answer-lost"   // the answer has come, and nothing of it is read
	AnswerBroken How = "answer-broken" // half of the answer is read
)
