package mcpdedup

import "github.com/tooldedup/dedup/internal/door"

// Code says in _meta, as [MetaError], why a call failed. The table in the package
// documentation says what each means and whether to call again.
type Code string

// The codes of errors.
const (
	CodeKeyRequired      = Code(door.KeyRequired)
	CodeKeyInvalid       = Code(door.KeyInvalid)
	CodeKeyReused        = Code(door.KeyReused)
	CodeArgumentsInvalid = Code(door.ArgumentsInvalid)
	CodeInFlight         = Code(door.InFlight)
	CodeExpired          = Code(door.Expired)
	CodeRefused          = Code(door.Refused)
	CodeOutcomeUnknown   = Code(door.OutcomeUnknown)
	CodeUnavailable      = Code(door.Unavailable)
	CodeTimeout          = Code(door.Timeout)
	CodeBlocked          = Code(door.Blocked)
	CodeSessionRequired  = Code(door.SessionRequired)
	CodeFailed           = Code(door.Failed)

	CodeUnidentified Code = "unidentified"
	CodeUnclassified Code = "unclassified"
)
