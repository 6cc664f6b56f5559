package mcpdedup

// Names in the _meta of requests and answers.
const (
	// MetaKey is the call's key: in a request as the client made it, in an answer
	// as it was used. Options.MetaKey gives it another name.
	MetaKey = "io.github.tooldedup/idempotency-key"
	// MetaDuplicate tells of an answer whether it is that of an earlier call, a
	// boolean: nothing was done now. It is there if the call has a record, and false
	// where a call lost the answer to its own COMMIT and found its own record.
	MetaDuplicate = "duplicate"
	// MetaFirstAt is when an answer was recorded, by the database's clock and in
	// the form of RFC 3339.
	MetaFirstAt = "firstAt"
	// MetaError is the [Code] of an error.
	MetaError = "io.github.tooldedup/error"
	// MetaRetryAfter is how many seconds to wait for a call that is in flight.
	MetaRetryAfter = "io.github.tooldedup/retry-after"
	// MetaRefusal is what a tool's refusal has beside its text: {code, details}.
	MetaRefusal = "io.github.tooldedup/refusal"
)
