package door

// Names by which a key, a turn, and what is known of a call travel.
const (
	KeyHeader  = "Idempotency-Key"
	TurnHeader = "Agent-Turn"

	MetaKey        = "io.github.tooldedup/idempotency-key"
	MetaTurn       = "io.github.tooldedup/turn"
	MetaError      = "io.github.tooldedup/error"
	MetaRetryAfter = "io.github.tooldedup/retry-after"
	MetaRefusal    = "io.github.tooldedup/refusal"
	MetaDuplicate  = "duplicate"
	MetaFirstAt    = "firstAt"
)
