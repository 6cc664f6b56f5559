package dedup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// Stats are the counts of a Deduper since [New], in this process. For tools with effects outside
// the database it counts the transactions that record an answer, but neither the time at the
// provider nor calls without an answer.
type Stats struct {
	// Since is the time at which the Deduper was made, by this machine's clock.
	Since time.Time
	// Calls are sorted by tool and outcome. The counts of a tool add up to the number of its ended
	// calls.
	Calls []CallStats
	// InFlight are the calls that have not ended, the oldest first. They include calls of a DoBatch
	// that wait for others of their part.
	InFlight []InFlightCall
}

// CallStats counts the calls of a tool that had one outcome.
type CallStats struct {
	// Tool is the name as the callers gave it. Tools after the first 200, and invalid names, are
	// counted as "_other".
	Tool    string
	Outcome Outcome
	Calls   int64
	// Duration is the total time of the calls, and Waited the part of it that they spent waiting
	// for twins.
	Duration, Waited time.Duration
}

// InFlightCall is a call that has not ended.
type InFlightCall struct {
	CallData
	// StartedAt is the time at which the call began, by this machine's clock.
	StartedAt time.Time
}

const (
	// maxStatsTools is the number of tools that a Deduper counts by name.
	maxStatsTools = 200
	// otherTools is the name under which the calls of all other tools are counted.
	otherTools = "_other"
)

// stats counts calls and tracks those in flight.
type stats struct {
	since time.Time

	mu       sync.Mutex
	counts   map[statsKey]*CallStats
	tools    map[string]bool // the tools that are counted by name
	inFlight map[*span]bool
	// record tracks the counts that Sweepers have written. It has a separate lock.
	record statsRecord
}

type statsKey struct {
	tool    string
	outcome Outcome
}

func (st *stats) start(s *span) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.inFlight == nil {
		st.inFlight = make(map[*span]bool)
	}
	st.inFlight[s] = true
}

func (st *stats) end(s *span, data *CallEndData) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.inFlight, s)
	count := st.counts[statsKey{data.Tool, data.Outcome}]
	if count == nil {
		count = st.newCount(data.Tool, data.Outcome)
	}
	count.Calls++
	count.Duration += data.Duration
	count.Waited += data.Waited
}

// newCount returns the counter of an outcome under the tool's name, or under otherTools.
func (st *stats) newCount(tool string, outcome Outcome) *CallStats {
	if st.counts == nil {
		st.counts, st.tools = make(map[statsKey]*CallStats), make(map[string]bool)
	}
	switch {
	case st.tools[tool]:
	case len(st.tools) == maxStatsTools, validateName("Tool", tool) != nil:
		tool = otherTools
	default:
		st.tools[tool] = true
	}
	key := statsKey{tool, outcome}
	if st.counts[key] == nil {
		st.counts[key] = &CallStats{Tool: tool, Outcome: outcome}
	}
	return st.counts[key]
}

func (st *stats) snapshot() Stats {
	st.mu.Lock()
	defer st.mu.Unlock()
	all := Stats{Since: st.since}
	for _, count := range st.counts {
		all.Calls = append(all.Calls, *count)
	}
	for s := range st.inFlight {
		all.InFlight = append(all.InFlight, InFlightCall{CallData: s.about(), StartedAt: s.began})
	}
	slices.SortFunc(all.Calls, func(a, b CallStats) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Outcome, b.Outcome))
	})
	slices.SortFunc(all.InFlight, func(a, b InFlightCall) int { return a.StartedAt.Compare(b.StartedAt) })
	return all
}

// span is a call from its start to its end, for counts and tracers. The zero span belongs to a call
// without a Deduper or a context.
type span struct {
	trace Tracer // nil for none
	stats *stats
	ctx   context.Context // the call's
	call  CallData        // see about
	began time.Time
	ended bool
}

// start begins the span and returns the call's context.
func (s *span) start(ctx context.Context, trace Tracer, stats *stats, call CallData) context.Context {
	s.trace, s.stats, s.ctx, s.call, s.began = trace, stats, ctx, call, time.Now()
	if trace != nil {
		s.call = s.about()
		s.ctx = trace.TraceCallStart(ctx, s.call)
	}
	stats.start(s)
	return s.ctx
}

// about returns the call with its key hash and attributes, which only tracers and snapshots need.
func (s *span) about() CallData {
	call := s.call
	call.KeyHash, call.Attrs = KeyHash(call.Key), AttrsOf(s.ctx)
	return call
}

// end ends the span of a call that returns err. r is nil after a panic.
func (s *span) end(r *response, attempts int, waited time.Duration, err error) {
	if s.stats == nil || s.ended {
		return
	}
	s.ended = true
	data := CallEndData{CallData: s.call, Outcome: outcomeOf(r, err), Err: err, Duration: time.Since(s.began), Attempts: attempts, Waited: waited}
	s.stats.end(s, &data)
	if s.trace == nil {
		return
	}
	if r != nil && r.rec != nil {
		data.CreatedAt = r.rec.CreatedAt
		if !r.rec.Tombstone {
			data.ResultBytes = len(r.rec.Result)
		}
		if !r.executed {
			data.Age = r.rec.Age()
		}
	}
	s.trace.TraceCallEnd(s.ctx, data)
}

var errPanicked = errors.New("dedup: the call panicked")

// abandon ends the span of a call that panicked.
func (s *span) abandon() { s.end(nil, 0, 0, errPanicked) }

// outcomeOf returns the outcome of a call with this response and error. r is nil after a panic.
func outcomeOf(r *response, err error) Outcome {
	switch typed := err.(type) {
	case nil:
		return recorded(r, OutcomeExecuted, OutcomeReplayed)
	case *RefusedError:
		return recorded(r, OutcomeRefused, OutcomeRefusalReplayed)
	case *Error:
		return cmp.Or(outcomes[typed.Kind], OutcomeError)
	case *InvalidError:
		return OutcomeInvalid
	}
	if wire.IsContextError(err) {
		return OutcomeCancelled
	}
	if wrapped, ok := errors.AsType[*Error](err); ok {
		return cmp.Or(outcomes[wrapped.Kind], OutcomeError)
	}
	if _, ok := errors.AsType[*InvalidError](err); ok {
		return OutcomeInvalid
	}
	if errors.Is(err, ErrInFlight) {
		return OutcomeInFlight
	}
	return OutcomeError
}

// recorded returns the outcome of a call that a record answered.
func recorded(r *response, executed, replayed Outcome) Outcome {
	switch {
	case r == nil || r.rec == nil: // the effect returned the error of another call
		return OutcomeError
	case r.executed:
		return executed
	case r.recovered:
		return OutcomeRecovered
	default:
		return replayed
	}
}

var outcomes = map[error]Outcome{
	ErrOutcomeUnknown: OutcomeUnknown, ErrAttemptsExhausted: OutcomeExhausted, ErrRestartTx: OutcomeRestart,
	ErrExpired: OutcomeExpired, ErrKeyReused: OutcomeKeyReused, ErrBroken: OutcomeBroken, ErrSchema: OutcomeSchema,
}
