package mcpdedup

import "github.com/tooldedup/dedup/internal/door"

// What a client puts into the _meta of a request. The package documentation has the names in
// that of an answer.
const (
	// MetaKey is the call's key: in a request as the client made it, in an answer
	// as it was used.
	MetaKey = door.MetaKey
	// MetaTurn says which message of a model the call comes from: {"session": "conversation 17",
	// "turn": 4}. The turn counts the model's messages in the session, from 1. A call that needs a key and
	// comes without one, or with one that names no single call, has the key of its turn, its tool and
	// its arguments.
	MetaTurn = door.MetaTurn
)
