package mcpdedup

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// Policy configures how [Middleware] wraps a tool.
type Policy struct {
	// Class says what running the tool again does. Required. A call of a ReadOnly tool is passed on
	// unchanged if Options.Scope returns a scope.
	Class tool.Class
	// RecordedAs is the tool's name before it was renamed; calls are recorded under it. See
	// [tool.Tool]. Default: the tool's name.
	RecordedAs string
	// Retention says how long answers are replayed, and for how long a repeat is refused after
	// that. Default: the Deduper's.
	Retention dedup.Retention
	// MaxWait bounds how long a call waits for a twin. Default: the Deduper's.
	MaxWait time.Duration
	// KeyArgument is an argument of the tool that is the key of its calls, such as AdCP's
	// idempotency_key. The schema stays unchanged, and the handler gets the argument. Default: the
	// argument [KeyArgument] is added to the tool.
	KeyArgument string
	// Ignored are the arguments that are not compared, such as text that a model words anew with
	// each try, and secrets. The handler gets them.
	Ignored []string
}

// problems returns the faults of policies, sorted by the tools' names.
func problems(d *dedup.Deduper, policies map[string]Policy) (found []tool.Problem) {
	recordings := map[string]int{} // the number of tools with a name for their records
	for name, p := range policies {
		recordings[name]++
		if p.RecordedAs != "" && p.RecordedAs != name {
			recordings[p.RecordedAs]++
		}
	}
	for name, p := range policies {
		report := func(reason string) {
			found = append(found, tool.Problem{Tool: name, Field: "Class", Reason: reason})
		}
		if recordings[cmp.Or(p.RecordedAs, name)] > 1 && p.RecordedAs != "" {
			found = append(found, tool.Problem{Tool: name, Field: "RecordedAs", Reason: "is another tool's already"})
		}
		if bad := door.CheckRetention(d, p.Retention); bad != nil {
			found = append(found, tool.Problem{Tool: name, Field: bad.Field, Reason: bad.Reason})
		}
		switch p.Class {
		case tool.ReadOnly, tool.Idempotent, tool.Write, tool.Destructive:
		case tool.Unclassified:
			report("is missing: say whether the tool is ReadOnly, Idempotent, Write or Destructive")
		default:
			report("is none that a transaction holds; make it a tool.ExternalTool of a registry, and use AddTools")
		}
	}
	slices.SortStableFunc(found, func(a, b tool.Problem) int { return strings.Compare(a.Tool, b.Tool) })
	return found
}
