package external

import (
	"context"
	"log/slog"

	"github.com/tooldedup/dedup"
)

// Event is the [dedup.Event] of one step of an operation. The Deduper's Tracer gets it. Its Func is
// always "external". Alert on EventParked and EventTwice.
type Event struct {
	dedup.CallData
	Kind EventKind
	// Fence is the act's fence, 0 without an act.
	Fence int64
	// Ref is the provider's id of the effect, if known.
	Ref string
	// Note is the reason of the step, if it has one: the provider's error or an operator's reason.
	Note string
}

// EventKind is a step of an operation. Its text may be the value of a metric's label.
type EventKind string

const (
	EventClaimed   EventKind = "claimed"   // the act holds the operation and has sent nothing
	EventSending   EventKind = "sending"   // Perform is called next
	EventAnswered  EventKind = "answered"  // Perform has returned
	EventLooked    EventKind = "looked"    // Find has returned
	EventRecording EventKind = "recording" // the answer is known, its transaction has not begun
	EventEnding    EventKind = "ending"    // only the record and COMMIT are not sent yet
	EventRecorded  EventKind = "recorded"  // the answer is committed
	EventReleased  EventKind = "released"  // the attempt had no effect; another one follows
	EventResent    EventKind = "resent"    // Perform is called again, with the same key
	EventFound     EventKind = "found"     // Find has found the effect of an attempt
	EventUnknown   EventKind = "unknown"   // the attempt may have had its effect
	EventParked    EventKind = "parked"    // the effect may have happened; an operator must decide
	EventTwice     EventKind = "twice"     // the effect happened more than once
	EventFenced    EventKind = "fenced"    // another act has taken over; this one changed nothing
	EventResolved  EventKind = "resolved"  // an operator's verdict is stored
)

// LogLine returns the line that [dedup.NewSlogTracer] writes for the event: tool_effect_twice at
// Error, tool_effect_parked and tool_effect_resolved at Warn, tool_effect_unknown at Info, and all
// others at Debug.
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
