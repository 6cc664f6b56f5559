package mcpdedup

// Code says in _meta, as [MetaError], why a call failed. The table in the package
// documentation says what each means and whether to call again.
type Code string

// The codes of errors.
const (
	CodeKeyRequired      Code = "key_required"
	CodeKeyInvalid       Code = "key_invalid"
	CodeKeyReused        Code = "key_reused"
	CodeArgumentsInvalid Code = "arguments_invalid"
	CodeInFlight         Code = "in_flight"
	CodeExpired          Code = "expired"
	CodeRefused          Code = "refused"
	CodeLookalike        Code = "lookalike"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeUnavailable      Code = "unavailable"
	CodeTimeout          Code = "timeout"
	CodeBlocked          Code = "blocked"
	CodeUnidentified     Code = "unidentified"
	CodeSessionRequired  Code = "session_required"
	CodeUnclassified     Code = "unclassified"
	CodeFailed           Code = "failed"
)
