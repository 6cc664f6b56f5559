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

// Policy says what [Middleware] does with calls of a tool.
type Policy struct {
	// Class says what running the tool again would do. Required. Calls of ReadOnly
	// tools are passed on as they are, if Options.Scope knows who makes them.
	Class tool.Class
	// RecordedAs is the name that the tool's calls are recorded under, if that is not its name: the
	// tool's name before it was renamed. See [tool.Tool].
	RecordedAs string
	// Retention says how long answers are replayed, and refused after that.
	// Default that of the Deduper.
	Retention dedup.Retention
	// MaxWait bounds how long a call waits for a twin. Default that of the
	// Deduper.
	MaxWait time.Duration
	// KeyArgument is an argument of the tool's own that is the key of its calls, such
	// as the idempotency_key of AdCP. Its schema stays as it is, and the handler gets
	// the argument. Default: the tool gets an argument for it, [KeyArgument].
	KeyArgument string
	// Ignored are the arguments that are not compared: what a model words anew
	// with each try, and secrets. They reach the handler all the same.
	Ignored []string
}

// problems lists what is wrong with policies, sorted by the tools' names.
func problems(d *dedup.Deduper, policies map[string]Policy) (found []tool.Problem) {
	recordings := map[string]int{} // how many tools have a name for their records
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
