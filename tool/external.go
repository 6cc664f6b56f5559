package tool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// ExternalTool is a tool whose effect is outside of the database: a payment, a mail, a ticket
// elsewhere. Package external runs it, and says what is guaranteed by what the provider
// offers. The registry needs Options.External.
//
// Tags of In mean what they do for a [Tool], but for redact, which Add refuses: the input is
// stored until the answer is certain. Pass a reference to the secret.
type ExternalTool[In, Out any] struct {
	// Tool says how the effect is carried out and what the provider offers. Its Name is the
	// tool's, by the rules of [Tool].
	external.Tool[In, Out]

	// RecordedAs is the name of the tool before it was renamed: see [Tool]. Options.External has
	// the tool under this name. Default Name.
	RecordedAs string
	// Description tells a model what the tool does and when to use it.
	Description string
	// Class is External, the default, or Destructive where the effect cannot be taken back:
	// then clients are told so.
	Class Class
	// OncePerRequest makes calls with equal compared arguments, within one request of the user, one
	// call: a model that plans again repeats its call under a new id. The nth of several equal calls in
	// one message is the nth. A key goes before it, and calls without Invocation.Request do not count.
	// Default false.
	OncePerRequest bool
	// MaxWait bounds how long a call waits for its effect, before it is answered with
	// [dedup.ErrInFlight] and goes on by itself. Default that of the Deduper.
	MaxWait time.Duration
}

// externalTool is what a registry needs of an ExternalTool beside its definition.
type externalTool interface {
	// problems says all for which x refuses the tool; x may be nil.
	problems(x *external.Tools) []*dedup.InvalidError
	// add adds it to x.
	add(x *external.Tools) error
}

func (t ExternalTool[In, Out]) define() (*definition, []Problem) {
	if t.Class == Unclassified {
		t.Class = External
	}
	d, problems := newDefinition[In, Out](Info{Name: t.Name, RecordedAs: t.RecordedAs, Description: t.Description, Class: t.Class, Retention: t.Retention, External: true})
	t.Name = d.RecordedAs // of the operations
	d.maxWait, d.oncePerRequest, d.external = t.MaxWait, t.OncePerRequest, t
	for _, path := range d.Redacted {
		problems = append(problems, Problem{t.Name, "In." + path, "is tagged redact, and the input of an ExternalTool is stored; pass a reference to the secret"})
	}
	return d, problems
}

func (t ExternalTool[In, Out]) problems(x *external.Tools) []*dedup.InvalidError {
	return external.Problems(x, t.Tool)
}

func (t ExternalTool[In, Out]) add(x *external.Tools) error {
	_, err := external.Add(x, t.Tool)
	return err
}

// externalProblems are those of an ExternalTool with what the registry runs it with, but for
// those that are known.
func (r *Registry) externalProblems(t *definition, known []Problem) (found []Problem) {
	if r.opts.External == nil {
		found = append(found, Problem{t.Name, "Options.External", "is missing, and the registry runs ExternalTools with it; make it with external.New"})
	}
	for _, bad := range t.external.problems(r.opts.External) {
		p := Problem{t.Name, strings.TrimPrefix(bad.Field, "Tool."), bad.Reason}
		if !slices.ContainsFunc(known, func(k Problem) bool { return k.Tool == p.Tool && k.Field == p.Field }) {
			found = append(found, p)
		}
	}
	return found
}

// Status says where the call stands that inv's Scope, Tool and Key name. It runs nothing. Only calls
// of ExternalTools have an Operation. The error is a *[dedup.InvalidError], whose Field is
// "Tool" if there is no such tool, or the database's.
func (r *Registry) Status(ctx context.Context, inv Invocation) (status external.Status, err error) {
	t := r.find(inv.Tool)
	switch {
	case t == nil:
		return status, unknownTool(inv.Tool)
	case t.external != nil:
		return r.opts.External.Status(ctx, inv.Scope, t.RecordedAs, inv.Key)
	}
	status.Record, err = r.d.Lookup(ctx, inv.Scope, t.RecordedAs, inv.Key)
	return status, err
}
