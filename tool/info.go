package tool

import (
	"reflect"

	"github.com/tooldedup/dedup"
)

// Info describes a registered tool, for a server that offers it, a client that retries it, or a
// reviewer.
type Info struct {
	Name string
	// RecordedAs is the name that calls are recorded under: Tool.RecordedAs, or Name.
	RecordedAs  string
	Description string
	Class       Class
	// Retention is the tool's own. It is zero if the tool uses the Deduper's.
	Retention dedup.Retention
	// External reports whether the tool is an [ExternalTool], whatever its Class. Its calls may
	// return [dedup.ErrInFlight] and *[external.ParkedError].
	External bool
	// Key, Ignored and Redacted are the paths, with dots, of the arguments with these tags. A type
	// that occurs in several lists, maps or pointers is listed at its first place. If Key is not
	// empty, those arguments are the call's key.
	Key, Ignored, Redacted []string
	// In and Out are the types of the arguments and of the result.
	In, Out reflect.Type

	plan *plan
}
