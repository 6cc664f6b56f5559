package tool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// ExternalTool is a tool whose effect is outside the database: a payment, a mail, a ticket
// elsewhere. Package external runs it; its guarantee depends on the provider's. The registry needs
// Options.External.
//
// The tags of In mean the same as for a [Tool], but Add refuses redact: the input is stored until
// the answer is certain. Pass a reference to the secret.
type ExternalTool[In, Out any] struct {
	// Tool performs the effect and declares the provider's guarantees. Its Name is the tool's, by
	// the rules of [Tool].
	external.Tool[In, Out]

	// RecordedAs is the tool's name before it was renamed: see [Tool]. Options.External has the
	// tool under this name. Default: Name.
	RecordedAs string
	// Description tells a model the tool's purpose and when to use it.
	Description string
	// Class is External, or Destructive if the effect cannot be undone; MCP clients are told so.
	// Default: External.
	Class Class
	// OncePerRequest makes calls with equal compared arguments one call within one request of the
	// user: see [Tool]. Default: false.
	OncePerRequest bool
	// MaxWait bounds how long a call waits for the operation. After it the call returns
	// [dedup.ErrInFlight], and the operation goes on in the background. Negative means at most one
	// attempt or look-up; see [external.Handle.Do]. Default: the Deduper's.
	MaxWait time.Duration
}

// externalTool is an ExternalTool without its types, as package external takes it.
type externalTool interface {
	// problems returns every reason why x refuses the tool. x may be nil.
	problems(x *external.Tools) []*dedup.InvalidError
	// add adds the tool to x.
	add(x *external.Tools) error
}

func (t ExternalTool[In, Out]) define() (*definition, []Problem) {
	if t.Class == Unclassified {
		t.Class = External
	}
	d, problems := newDefinition[In, Out](Info{Name: t.Name, RecordedAs: t.RecordedAs, Description: t.Description, Class: t.Class, Retention: t.Retention, External: true})
	t.Name = d.RecordedAs // the name of its operations
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

// externalProblems returns the reasons why Options.External refuses t, without those in known.
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

// Status reports the state of the call that Scope, Tool and Key of inv name. It runs nothing. Only
// calls of ExternalTools have an Operation. The error is a *[dedup.InvalidError] with Field "Tool"
// if the tool is unknown, or the database's.
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
