package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
)

// Tool is a function on a transaction, with the facts that a registry needs to guard its calls. In
// is a struct. Out is any type that encoding/json encodes. A call fails with [dedup.ErrInvalid] for
// the results for which [dedup.Do] does: see [dedup.Result].
type Tool[In, Out any] struct {
	// Name is the tool's stable name: 1 to 128 ASCII letters, digits and "_-./", as models and MCP
	// accept them. Records are found by it: set RecordedAs when you rename the tool.
	Name string
	// RecordedAs is the name that the tool's calls are recorded under: the tool's name before it
	// was renamed. Calls from before and after the rename are then twins, also while both releases
	// run. The registry accepts calls by this name too. Logs, metrics and the console show it. Its
	// form is that of Name. Default: Name.
	RecordedAs string
	// Description tells a model the tool's purpose and when to use it.
	Description string
	// Class says what running the tool again does. Required.
	Class Class
	// Retention says how long answers are replayed, and for how long a repeat is refused after
	// that. Default: the Deduper's.
	Retention dedup.Retention
	// MaxWait bounds how long a call waits for a twin. Default: the Deduper's.
	MaxWait time.Duration
	// OncePerRequest makes calls with equal compared arguments one call within one request of the
	// user: a model that plans again repeats its call under a new id. Two equal calls in one
	// message are two calls: if the next message repeats both, its first is the first and its
	// second the second. So give InvokeAll or Message the whole message at each delivery. In a part
	// of it, or with Invoke, the second call counts as the first and gets its answer. A call with a
	// key uses its key, and a call without Invocation.Request is not affected. Default: false.
	OncePerRequest bool
	// StoreErrors records every error of Run as an answer, as [dedup.Call] describes. Default:
	// false, which records only errors that [dedup.Final] wraps.
	StoreErrors bool
	// Run does the work. Like every [dedup.Effect] it may run more than once for one call, and all
	// runs but one are rolled back: do everything through tx. Each run gets arguments of its own.
	// The transaction of a ReadOnly tool is READ ONLY.
	Run func(ctx context.Context, tx pgx.Tx, in In) (Out, error)
}

// Definition is a [Tool] or an [ExternalTool] of any types.
type Definition interface {
	// define checks the tool's own fields and types.
	define() (*definition, []Problem)
}

// definition is a Definition without its types.
type definition struct {
	Info
	maxWait                     time.Duration
	storeErrors, oncePerRequest bool
	// effect makes the effect of a call from its arguments, the JSON of an In. It is nil for an
	// ExternalTool, which has external.
	effect   func(args json.RawMessage) dedup.Effect[json.RawMessage]
	external externalTool
}

func (t Tool[In, Out]) define() (*definition, []Problem) {
	d, problems := newDefinition[In, Out](Info{Name: t.Name, RecordedAs: t.RecordedAs, Description: t.Description, Class: t.Class, Retention: t.Retention})
	d.maxWait, d.storeErrors, d.oncePerRequest, d.effect = t.MaxWait, t.StoreErrors, t.OncePerRequest && t.Class.Writes(), t.effect
	if t.Run == nil {
		problems = append(problems, Problem{t.Name, "Run", "is nil"})
	}
	return d, problems
}

// newDefinition plans a tool's types and collects the paths of its tagged arguments.
func newDefinition[In, Out any](info Info) (*definition, []Problem) {
	info.In, info.Out, info.RecordedAs = reflect.TypeFor[In](), reflect.TypeFor[Out](), cmp.Or(info.RecordedAs, info.Name)
	d := &definition{Info: info}
	problems := d.problems()
	var found []Problem
	d.plan, found = planOf(info.Name, info.Class, info.In, info.Out)
	for _, k := range d.plan.keys {
		d.Key = append(d.Key, k.path)
	}
	d.Ignored, d.Redacted = d.plan.ignored, d.plan.redacted
	return d, append(problems, found...)
}

// effect reads the arguments anew for each run: an earlier run may have changed what its slices,
// maps and pointers hold.
func (t Tool[In, Out]) effect(args json.RawMessage) dedup.Effect[json.RawMessage] {
	return func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil { // it was read before, to check the call
			return nil, err
		}
		out, err := t.Run(ctx, tx, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}
}

// encode returns the JSON text of a result as [dedup.Do] writes it, but with <, > and & unescaped.
// A [json.RawMessage] is returned unchanged.
func encode(out any) (text json.RawMessage, err error) {
	text, ok := out.(json.RawMessage)
	if !ok || text == nil {
		if text, err = canon.Encode(out, false); err != nil {
			return nil, &dedup.InvalidError{What: "result", Reason: "cannot be encoded", Err: err}
		}
	}
	switch {
	case !utf8.Valid(text):
		return nil, &dedup.InvalidError{What: "result", Reason: "is not valid UTF-8"}
	case !json.Valid(text):
		return nil, &dedup.InvalidError{What: "result", Reason: "is not valid JSON"}
	}
	return text, nil
}

// problems returns the problems of the name and the class.
func (t *definition) problems() (found []Problem) {
	const form = `must be 1 to 128 letters, digits and "_-./" of ASCII`
	switch {
	case !toolName.MatchString(t.Name):
		found = append(found, Problem{t.Name, "Name", form})
	case !toolName.MatchString(t.RecordedAs):
		found = append(found, Problem{t.Name, "RecordedAs", form})
	}
	reason := ""
	switch t.Class {
	case Unclassified:
		reason = "is missing: say whether the tool is ReadOnly, Idempotent, Write or Destructive"
	case External:
		if !t.External {
			reason = "is External, and no transaction holds an effect outside the database; use an ExternalTool"
		}
	case ReadOnly, Idempotent, Write:
		if t.External {
			reason = fmt.Sprintf("is %s; an ExternalTool is External, or Destructive if its effect cannot be undone", t.Class)
		}
	case Destructive:
	default:
		reason = "is not a class of this package"
	}
	if reason != "" {
		found = append(found, Problem{t.Name, "Class", reason})
	}
	return found
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_\-./]{1,128}$`)
