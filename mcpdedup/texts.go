package mcpdedup

import "github.com/tooldedup/dedup/internal/door"

// words are the words that a client of the tool knows.
func (o *offered) words(key string) door.Words {
	w := door.Words{Arguments: "arguments", Key: o.info.Key, Keyless: key == "", RetryAfter: o.opts.RetryAfter}
	switch {
	case o.keyArgument != "":
		w.Same, w.New = "with the same "+o.keyArgument+" and the same arguments", "call again with a new "+o.keyArgument
	default:
		w.Same, w.New = "with the same key and the same arguments", "call again with a new key"
	}
	return w
}

// keyRequiredText asks for a key, if the tool's arguments are not the key.
func (o *offered) keyRequiredText() string {
	const fresh = ": a new random value, such as a UUID, to be sent again, unchanged, with every retry of this action."
	if o.keyArgument != "" {
		return o.words("").Unkeyed("the argument " + o.keyArgument + fresh)
	}
	return o.words("").Unkeyed(`a key in _meta["` + MetaKey + `"]` + fresh)
}
