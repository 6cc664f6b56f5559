package tool

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
)

// Registry holds the tools that a program offers. It is safe for concurrent use.
type Registry struct {
	d    *dedup.Deduper
	opts Options

	mu sync.RWMutex
	// tools maps each tool's Name, and its RecordedAs, to the tool.
	tools map[string]*definition
}

// Options configure a Registry. A nil Options and zero fields mean the defaults.
type Options struct {
	// External runs the ExternalTools; without it none can be added. Make it with external.New and
	// the same Deduper, run its Recover, and close it at the end. Default: none.
	External *external.Tools
}

// NewRegistry returns an empty registry whose tools run on d's pool. It panics if d is nil or is
// not the Deduper of Options.External.
func NewRegistry(d *dedup.Deduper, opts *Options) *Registry {
	if d == nil {
		panic("tool: NewRegistry: the Deduper is nil")
	}
	r := &Registry{d: d, tools: map[string]*definition{}}
	if opts != nil {
		r.opts = *opts
	}
	if x := r.opts.External; x != nil && x.Deduper() != d {
		panic("tool: NewRegistry: Options.External has another Deduper")
	}
	return r
}

// Add registers all the tools or none. The error is a *RegistrationError with every problem of
// every tool. Call it at start-up.
func (r *Registry) Add(tools ...Definition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var problems []Problem
	added, taken := []*definition{}, map[string]bool{}
	for i, t := range tools {
		if v := reflect.ValueOf(t); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			problems = append(problems, Problem{Field: fmt.Sprintf("argument %d", i), Reason: "is nil"})
			continue
		}
		d, found := t.define()
		if bad := door.CheckRetention(r.d, d.Retention); bad != nil {
			found = append(found, Problem{d.Name, bad.Field, bad.Reason})
		}
		for i, name := range d.names() {
			if name != "" && (taken[name] || r.has(name)) {
				found = append(found, Problem{d.Name, []string{"Name", "RecordedAs"}[i], "is another tool's already"})
			}
			taken[name] = true
		}
		if d.external != nil {
			found = append(found, r.externalProblems(d, found)...)
		}
		problems = append(problems, found...)
		added = append(added, d)
	}
	if len(problems) > 0 {
		return &RegistrationError{Problems: problems}
	}
	for _, d := range added {
		if d.external == nil {
			continue
		}
		if err := d.external.add(r.opts.External); err != nil { // added to Options.External since the check
			return &RegistrationError{Problems: []Problem{{d.Name, "Name", err.Error()}}}
		}
	}
	for _, d := range added {
		for _, name := range d.names() {
			r.tools[name] = d
		}
	}
	return nil
}

// names returns the tool's Name, and RecordedAs if it differs.
func (t *definition) names() []string { return slices.Compact([]string{t.Name, t.RecordedAs}) }

// has reports whether a tool has the name. A tool in Options.External counts even if the registry
// did not add it: its records would be mixed with the new tool's.
func (r *Registry) has(name string) bool {
	return r.tools[name] != nil || r.opts.External != nil && r.opts.External.Has(name)
}

// Tools describes the registered tools, sorted by name.
func (r *Registry) Tools() []Info {
	r.mu.RLock()
	defer r.mu.RUnlock()
	infos := make([]Info, 0, len(r.tools))
	for name, d := range r.tools {
		if name == d.Name {
			infos = append(infos, d.Info)
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Lookup describes one tool, by its Name or RecordedAs. The second result is false if there is no
// such tool.
func (r *Registry) Lookup(name string) (Info, bool) {
	if d := r.find(name); d != nil {
		return d.Info, true
	}
	return Info{}, false
}

// Deduper returns the Deduper that the tools run with.
func (r *Registry) Deduper() *dedup.Deduper { return r.d }

func (r *Registry) find(name string) *definition {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tools[name]
}
