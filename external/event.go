package external

import (
	"context"
	"log/slog"

	"github.com/tooldedup/dedup"
)

// Event is the [dedup.Event] of every step of an operation. The Deduper's Tracer is told of
// it. Its Func is "external", whichever function takes the step. Alert on EventParked and EventTwice.
type Event struct {
	dedup.CallData
	Kind EventKind
	// Fence is that of the act, 0 where nobody acts.
	Fence int64
	// Ref is the provider's id of what happened, where it is known.
	Ref string
	// Note says why, of a step that has a reason: the provider's error, an operator's
	// reason.
	Note string
}

// EventKind is a step of an operation. Its text may be the value of a metric's label.
type EventKind string

const (
	EventClaimed   EventKind = "claimed"   // the act holds the operation, and has sent nothing
	EventSending   EventKind = "sending"   // Perform is called next
	EventAnswered  EventKind = "answered"  // Perform has returned
	EventLooked    EventKind = "looked"    // Find has returned
	EventRecording EventKind = "recording" // the answer is known, and its transaction not begun
	EventEnding    EventKind = "ending"    // all but the record and COMMIT has been sent
	EventRecorded  EventKind = "recorded"  // the answer is committed
	EventReleased  EventKind = "released"  // the attempt had no effect; another follows
	EventResent    EventKind = "resent"    // Perform is called again, with the same key
	EventFound     EventKind = "found"     // Find has found what an attempt did
	EventUnknown   EventKind = "unknown"   // the attempt may have had its effect
	EventParked    EventKind = "parked"    // it may have happened, and only a person can say
	EventTwice     EventKind = "twice"     // it happened more than once
	EventFenced    EventKind = "fenced"    // somebody else has taken over; the act changed nothing
	EventResolved  EventKind = "resolved"  // a person has said what became of it
)

// LogLine returns the line that [dedup.NewSlogTracer] writes of the event: tool_effect_twice at Error, tool_effect_parked and
// tool_effect_resolved at Warn, tool_effect_unknown at Info, and those of other steps at Debug.
func (e Event) LogLine() (slog.Level, string, []slog.Attr) {
	level := slog.LevelDebug
	switch e.Kind {
	case EventTwice:
		level = slog.LevelError
	case EventParked, EventResolved:
		level = slog.LevelWarn
	case EventUnknown:
		level = slog.LevelInfo
	}
	return level, "tool_effect_" + string(e.Kind), []slog.Attr{
		slog.Int64("fence", e.Fence), slog.String("ref", e.Ref), slog.String("note", e.Note),
	}
}

func (x *Tools) event(ctx context.Context, kind EventKind, r *row, ref, note string) {
	if x.trace == nil {
		return
	}
	x.trace.TraceEvent(ctx, Event{
		CallData: dedup.CallData{Func: "external", Scope: r.Scope, Tool: r.Tool, Key: r.Key, KeyHash: dedup.KeyHash(r.Key), Attrs: dedup.AttrsOf(ctx)},
		Kind:     kind, Fence: r.fence, Ref: ref, Note: note,
	})
}
