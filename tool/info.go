package tool

import (
	"reflect"

	"github.com/tooldedup/dedup"
)

// Info is what others need to know of a tool: a server that offers it, a client
// that retries it, a reviewer.
type Info struct {
	Name string
	// RecordedAs is the name that calls are recorded under: Tool.RecordedAs, or Name.
	RecordedAs  string
	Description string
	Class       Class
	// Retention is the tool's own; zero where it is the Deduper's.
	Retention dedup.Retention
	// External reports whether the tool is an [ExternalTool], whatever its Class. Its calls
	// may be answered with [dedup.ErrInFlight] and *[external.ParkedError].
	External bool
	// Key, Ignored and Redacted are the paths of the arguments that are tagged
	// so, with dots. A type that stands in several lists, maps or behind several
	// pointers is listed where it stands first. Where Key has any, the arguments themselves are the key.
	Key, Ignored, Redacted []string
	// In and Out are the types of arguments and result.
	In, Out reflect.Type

	plan *plan
}
