package tool

import (
	"encoding/json"
	"fmt"
	"time"
)

// LookalikeGuard watches for models that plan anew and mint another key for what
// they did already: calls of one scope, session and tool with equal arguments
// and different keys. No key can notice those. But two equal calls are often
// meant, a second bag for one, so that the guard is off by default, and to
// refuse is for tools where they hardly ever are.
//
// It needs the table tool_lookalike of the migrations (see [Registry.Check]), and
// costs a call and a replay one round trip each. Calls without a session count as
// one session of their scope. Lookalikes that run at once take turns inside
// Postgres, each holding its connection, until their context ends: two at once
// are an earlier and a later one. The guard needs advisory locks that all
// servers share, and so is not for Citus or other routers.
type LookalikeGuard struct {
	// Action is what becomes of a call that looks like an earlier one.
	Action LookalikeAction
	// Window is how long after the earlier one. Default 1 hour, at most 30 days.
	Window time.Duration
}

// LookalikeAction is what becomes of a call that looks like an earlier one.
type LookalikeAction int

const (
	// Ignore does not look.
	Ignore LookalikeAction = iota
	// Report runs the call, marks its answer and tells Options.OnLookalike.
	Report
	// Refuse answers with a *LookalikeError and runs nothing, until the same
	// call comes with Invocation.Confirmed.
	Refuse
)

// String returns the action in lower case.
func (a LookalikeAction) String() string {
	switch a {
	case Ignore:
		return "ignore"
	case Report:
		return "report"
	case Refuse:
		return "refuse"
	default:
		return fmt.Sprintf("lookalike_action(%d)", int(a))
	}
}

// MarshalText implements encoding.TextMarshaler with the action's name.
func (a LookalikeAction) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

const (
	defaultWindow = time.Hour
	maxWindow     = 30 * 24 * time.Hour
)

func (g LookalikeGuard) window() time.Duration {
	if g.Window == 0 {
		return defaultWindow
	}
	return g.Window
}

func (g LookalikeGuard) problems(d *definition) (found []Problem) {
	report := func(reason string) { found = append(found, Problem{d.Name, "Lookalikes", reason}) }
	switch {
	case g.Action < Ignore || g.Action > Refuse:
		report("has an Action that is none of this package's")
	case g.Action != Ignore && !d.Class.Writes():
		report("is for tools that write")
	case g.Action != Ignore && d.KeyInArguments():
		report("finds calls with equal arguments and different keys, and never any of a tool whose arguments are its key")
	case g.Action != Ignore && (g.window() < time.Second || g.window() > maxWindow):
		report("must have a Window of 1 second to 30 days")
	case g.Action == Ignore && g.Window != 0:
		report("has a Window and no Action")
	}
	return found
}

// Lookalike is an earlier call that a call equals but for its key.
type Lookalike struct {
	// KeyHash is the [dedup.KeyHash] of the earlier call's key.
	KeyHash string
	// At is when it ran, by the database's clock, a moment before its record.
	At time.Time
	// Result is its recorded result, nil once that is gone.
	Result json.RawMessage
}

// LookalikeError refuses a call because it equals an earlier one but for its
// key. Nothing was run. If it is meant, it is to be made again with the same key
// and Invocation.Confirmed. Returned by Registry.Invoke.
type LookalikeError struct {
	Tool string
	// KeyHash is that of the call that is refused.
	KeyHash string
	// Earlier is the call that it equals.
	Earlier Lookalike
}

// Error implements error.
func (e *LookalikeError) Error() string {
	return fmt.Sprintf("tool: %s was called with equal arguments under another key at %s; nothing was run: confirm that it is meant a second time, or take the earlier result",
		e.Tool, e.Earlier.At.UTC().Format(time.RFC3339))
}

// LookalikeEvent is what Options.OnLookalike is told.
type LookalikeEvent struct {
	Scope, Tool string
	// KeyHash is that of the later call.
	KeyHash string
	Earlier Lookalike
	// Action is what the tool's guard says, Confirmed whether the caller said
	// that it is meant.
	Action    LookalikeAction
	Confirmed bool
}
