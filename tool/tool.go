package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Tool is a function on a transaction, and what has to be known about it before
// anybody may call it. In is a struct, Out whatever encoding/json encodes.
type Tool[In, Out any] struct {
	// Name is the tool's stable name: 1 to 128 letters, digits and "_-./" of
	// ASCII, as models and MCP take them. Records are found by it: a tool that
	// is renamed has made no calls.
	Name string
	// Description tells a model what the tool does and when to use it.
	Description string
	// Class says what running it again would do. Required.
	Class Class
	// Scope says who shares a key. Default [PerCaller].
	Scope ScopeRule
	// Retention says how long answers are replayed, and refused after that.
	// Default that of the Deduper; see the presets of package dedup.
	Retention dedup.Retention
	// MaxWait bounds how long a call waits for a twin. Default that of the
	// Deduper.
	MaxWait time.Duration
	// Errors says whether errors of Run are recorded as answers. Default that of
	// the Deduper, which records what is wrapped by [dedup.Final].
	Errors dedup.ErrorPolicy
	// Run does the work. Like every [dedup.Effect] it may run more than once for
	// one call, and all its runs but one are rolled back: everything goes through
	// tx. A ReadOnly tool's transaction is read-only.
	Run func(ctx context.Context, tx pgx.Tx, in In) (Out, error)
}

// Definition is a [Tool] or an [ExternalTool] with whatever types it has.
type Definition interface {
	// define checks the tool by itself.
	define() (*definition, []Problem)
}

// definition is a Definition without its types.
type definition struct {
	Info
	maxWait time.Duration
	errors  dedup.ErrorPolicy
	// bind reads arguments, and returns them with what of them is compared and the effect of a call
	// with them.
	bind func(args json.RawMessage) (in reflect.Value, compared json.RawMessage, run dedup.Effect[json.RawMessage], err error)
	// external is nil, but for an ExternalTool, which has no effect that bind could return.
	external externalTool
}

func (t Tool[In, Out]) define() (*definition, []Problem) {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	plan, problems := planOf(t.Name, t.Class, in, out)
	d := &definition{
		Info: Info{
			Name: t.Name, Description: t.Description, Class: t.Class, Scope: t.Scope,
			Retention: t.Retention, Retry: retries(t.Class),
			In: in, Out: out, plan: plan,
		},
		maxWait: t.MaxWait, errors: t.Errors,
		bind: func(args json.RawMessage) (reflect.Value, json.RawMessage, dedup.Effect[json.RawMessage], error) {
			return t.bind(plan, args)
		},
	}
	d.describeArgs()
	problems = append(d.problems(), problems...)
	if t.Run == nil {
		problems = append(problems, Problem{t.Name, "Run", "is nil"})
	}
	return d, problems
}

// describeArgs says which arguments have tags.
func (t *definition) describeArgs() {
	for _, k := range t.plan.keys {
		t.Key = append(t.Key, k.path)
	}
	t.Ignored, t.Redacted = t.plan.ignored, t.plan.redacted
}

func (t Tool[In, Out]) bind(plan *plan, args json.RawMessage) (reflect.Value, json.RawMessage, dedup.Effect[json.RawMessage], error) {
	var in In
	_, compared, err := plan.decode(t.Name, args, &in)
	if err != nil {
		return reflect.Value{}, nil, nil, err
	}
	return reflect.ValueOf(in), compared, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		out, err := t.Run(ctx, tx, in)
		if err != nil {
			return nil, err
		}
		return encode(out)
	}, nil
}

// problems are those of the fields that have no types of their own.
func (t *definition) problems() (found []Problem) {
	report := func(field, reason string) { found = append(found, Problem{t.Name, field, reason}) }
	if !validName(t.Name) {
		report("Name", `must be 1 to 128 letters, digits and "_-./" of ASCII`)
	}
	if reason := t.classProblem(); reason != "" {
		report("Class", reason)
	}
	if t.Scope != PerCaller && t.Scope != PerSession {
		report("Scope", "is none of the rules of this package")
	}
	if t.errors < dedup.ErrorsDefault || t.errors > dedup.ErrorsStored {
		report("Errors", "is none of the policies of package dedup")
	}
	return found
}

// classProblem says what is wrong with the class, nothing where it is right.
func (t *definition) classProblem() string {
	switch t.Class {
	case Unclassified:
		return "is missing: say whether the tool is ReadOnly, Idempotent, Write or Destructive"
	case Destructive:
		return ""
	case External:
		if t.external == nil {
			return "is External, and no transaction holds an effect outside of the database; use an ExternalTool"
		}
		return ""
	case ReadOnly, Idempotent, Write:
		if t.external != nil {
			return fmt.Sprintf("is %s, and that of an ExternalTool is External, or Destructive where its effect cannot be taken back", t.Class)
		}
		return ""
	default:
		return "is none of the classes of this package"
	}
}

func validName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '_', c == '-', c == '.', c == '/':
		default:
			return false
		}
	}
	return true
}
