package deduptest

// A Scenario is one way in which calls fail in production.
type Scenario string

// The scenarios, in the order in which Verify runs them, each with a mistake that it finds. A
// statement here is one unit on the wire: a simple query, or all messages up to a Sync.
const (
	// Repeated calls three times on one Deduper, and checks how long the records are kept. It finds
	// a record that is forgotten before a late retry, which then has a second effect.
	Repeated Scenario = "repeated"
	// OtherArguments calls with a key that was used with other arguments. The call must be refused
	// with dedup.ErrKeyReused and have no effect. It finds arguments that dedup.Call.Args lacks.
	OtherArguments Scenario = "other arguments"
	// NotExecuted drops each statement of the call in turn before it reaches the server, and cuts
	// the last one in the middle. It runs twice: with Tool.Options, and with a Deduper that gives
	// up at the first fault (Retry.MaxAttempts 1), so that the tool's own code gets the error. The
	// tool may return the error, or call again with the same key. It finds an ignored error of
	// COMMIT, and effects outside the transaction.
	NotExecuted Scenario = "failure before execution"
	// AnswerLost lets the server execute a statement and drops its answer: once for each statement,
	// and in five ways for the one that commits. Like NotExecuted it runs twice. It finds a retry
	// with another key.
	AnswerLost Scenario = "answer lost after execution"
	// Cancelled cancels the call's context at each statement, before and after the server has it.
	// It finds a call that returns an answer because its context ended.
	Cancelled Scenario = "cancelled context"
	// Panicked panics in the effect, after each of its statements. It recognizes the statements by
	// their context, so the effect must use the context that it gets. Turn the scenario off for a
	// tool with dedup.DoStatement, whose effect has no Go code. It finds a panic that becomes a
	// success.
	Panicked Scenario = "panic in the effect"
	// TwoAtOnce and ManyAtOnce (200) call at the same time on two Dedupers. TwoAtOnce also calls,
	// with a Deduper that does not wait, while the first call is held at the statement that
	// commits. It finds a look-up before the write, and code that takes a new key after
	// dedup.ErrInFlight. ManyAtOnce finds an effect that needs a second connection of a pool that
	// its twins use up.
	TwoAtOnce  Scenario = "two at once"
	ManyAtOnce Scenario = "200 at once"
	// ProcessKilled kills a process that calls the tool, at each statement and between COMMIT and
	// answer, and calls again from this process. It needs [Child] in TestMain. It finds answers
	// that only the process remembers.
	ProcessKilled Scenario = "process killed"
)

// Scenarios returns all scenarios, in their order.
func Scenarios() []Scenario {
	var all []Scenario
	for _, play := range plays() {
		all = append(all, play.scenario)
	}
	return all
}

// play is a scenario and the function that runs it.
type play struct {
	scenario Scenario
	run      func(*scene)
}

func plays() []play {
	return []play{
		{Repeated, (*scene).repeated},
		{OtherArguments, (*scene).otherArguments},
		{NotExecuted, (*scene).notExecuted},
		{AnswerLost, (*scene).answerLost},
		{Cancelled, (*scene).cancelled},
		{Panicked, (*scene).panicked},
		{TwoAtOnce, (*scene).twoAtOnce},
		{ManyAtOnce, func(sc *scene) { sc.together(200) }},
		{ProcessKilled, (*scene).processKilled},
	}
}
