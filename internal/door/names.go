package door

// Names of the headers and members that carry a key, a turn and the state of a call.
const (
	KeyHeader  = "Idempotency-Key"
	TurnHeader = "Agent-Turn"

	MetaKey        = "io.github.tooldedup/idempotency-key"
	MetaTurn       = "io.github.tooldedup/turn"
	MetaError      = "io.github.tooldedup/error"
	MetaRetryAfter = "io.github.tooldedup/retry-after"
	MetaRefusal    = "io.github.tooldedup/refusal"
	MetaDuplicate  = "duplicate"
	MetaCreatedAt  = "createdAt"
)
