package deduptest

// A Scenario is one way in which calls go wrong in production.
type Scenario string

// The scenarios, in the order in which Verify runs them, each with a mistake that it finds.
// "Statement" is here what travels to the server as one: a simple query, or all messages up to a Sync.
const (
	// Repeated calls three times on one Deduper, and looks how long the records are kept. It finds
	// a record that is forgotten before a late retry, which then has a second effect.
	Repeated Scenario = "repeated"
	// OtherArguments calls with a key that was used with other arguments. That must
	// be refused with dedup.ErrKeyReused and have no effect. It finds arguments that are
	// missing in dedup.Call.Args.
	OtherArguments Scenario = "other arguments"
	// NotExecuted keeps each statement of the call from the server in turn, and cuts
	// the last one in the middle. All of it is done twice: with Tool.Options, and
	// with a Deduper that gives up at the first fault (Retry.MaxAttempts 1), so that
	// the tool's own code meets the error. It may return it, or call again with the
	// same key. It finds an error of COMMIT that is passed over, and effects that are not in
	// the transaction.
	NotExecuted Scenario = "failure before execution"
	// AnswerLost lets the server execute a statement and takes its answer away: of
	// each statement in turn, and in five ways of the one that commits. It is done
	// twice, as NotExecuted. It finds a retry that has another key.
	AnswerLost Scenario = "answer lost after execution"
	// Cancelled cancels the call's context at each statement, before the server has
	// it and after. It finds a call that is answered because its context has ended.
	Cancelled Scenario = "cancelled context"
	// Panicked panics in the effect, after each of its statements. The
	// effect must use the context that it is handed, which is how its statements
	// are known. The effect of dedup.DoStatement is no Go code that could panic: for
	// such a tool turn the scenario off. It finds a panic that is answered as a success.
	Panicked Scenario = "panic in the effect"
	// TwoAtOnce and ManyAtOnce (200) call at the same time on two Dedupers. TwoAtOnce also calls
	// while the first call is held at the statement that commits, by a Deduper that does not wait. It finds
	// a look-up before the write, and code that takes a new key on dedup.ErrInFlight.
	// ManyAtOnce finds an effect that needs a second connection of a pool that its twins
	// have emptied.
	TwoAtOnce  Scenario = "two at once"
	ManyAtOnce Scenario = "200 at once"
	// ProcessKilled kills a process that calls the tool, at each statement and when
	// the call is committed and not yet answered, and calls again from this one. It needs
	// [Child] in TestMain. It finds answers that only the process remembers.
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

// play is a scenario with what runs it.
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
