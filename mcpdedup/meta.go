package mcpdedup

import "github.com/tooldedup/dedup/internal/door"

// Members of a request's _meta that a client sets. The package documentation lists the members of
// an answer's.
const (
	// MetaKey is the call's key: in a request the client's, in an answer the key that was used.
	MetaKey = door.MetaKey
	// MetaTurn has the message of a model that the call comes from: {"session": "conversation 17",
	// "turn": 4}. The turn counts the model's messages in the session, from 1. If a call needs a
	// key and comes without a usable one, its turn, tool and arguments make the key.
	MetaTurn = door.MetaTurn
)
