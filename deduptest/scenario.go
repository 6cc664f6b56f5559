package deduptest

// A Scenario is one way in which calls go wrong in production.
type Scenario string

// The scenarios, in the order in which Verify runs them. "Statement" is here what
// travels to the server as one: a simple query, or all messages up to a Sync.
const (
	// Repeated calls three times on one Deduper, and looks how long the records are kept: a
	// retry that comes when one is forgotten has a second effect.
	Repeated Scenario = "repeated"
	// Restarted calls, closes pool and Deduper, and calls twice on new ones.
	Restarted Scenario = "restarted"
	// OtherArguments calls with a key that was used with other arguments. That must
	// be refused with dedup.ErrKeyReused and have no effect.
	OtherArguments Scenario = "other arguments"
	// NotExecuted keeps each statement of the call from the server in turn, and cuts
	// the last one in the middle. All of it is done twice: with Tool.Options, and
	// with a Deduper that gives up at the first fault (Retry.MaxAttempts 1), so that
	// the tool's own code meets the error. It may return it, or call again with the
	// same key.
	NotExecuted Scenario = "failure before execution"
	// AnswerLost lets the server execute a statement and takes its answer away: of
	// each statement in turn, and in five ways of the one that commits. It is done
	// twice, as NotExecuted.
	AnswerLost Scenario = "answer lost after execution"
	// Cancelled cancels the call's context at each statement, before the server has
	// it and after.
	Cancelled Scenario = "cancelled context"
	// BackendTerminated ends the server process with pg_terminate_backend, before
	// each statement and after.
	BackendTerminated Scenario = "backend terminated"
	// Panicked panics in the effect, at its statements: before and after each. The
	// effect must use the context that it is handed, which is how its statements
	// are known. The effect of dedup.DoStatement is no Go code that could panic: for
	// such a tool turn the scenario off.
	Panicked Scenario = "panic in the effect"
	// TwoAtOnce, EightAtOnce and ManyAtOnce (200) call at the same time on two
	// Dedupers: while the first call is held at the statement that commits, and all
	// together. TwoAtOnce does it also with a Deduper that does not wait, for code of the tool
	// that handles dedup.ErrInFlight.
	TwoAtOnce   Scenario = "two at once"
	EightAtOnce Scenario = "eight at once"
	ManyAtOnce  Scenario = "200 at once"
	// ProcessKilled kills a process that calls the tool, at each statement and when
	// the call is committed and not yet answered, and starts another one. It needs
	// [Child] in TestMain.
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
		{Restarted, (*scene).restarted},
		{OtherArguments, (*scene).otherArguments},
		{NotExecuted, (*scene).notExecuted},
		{AnswerLost, (*scene).answerLost},
		{Cancelled, (*scene).cancelled},
		{BackendTerminated, (*scene).backendTerminated},
		{Panicked, (*scene).panicked},
		{TwoAtOnce, func(sc *scene) { sc.atOnce(2) }},
		{EightAtOnce, func(sc *scene) { sc.atOnce(8) }},
		{ManyAtOnce, func(sc *scene) { sc.atOnce(200) }},
		{ProcessKilled, (*scene).processKilled},
	}
}
