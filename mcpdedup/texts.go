package mcpdedup

import (
	"strings"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// words are those that a client of the tool knows.
func (o *offered) words(key string) door.Words {
	w := door.Words{Arguments: "arguments", Keyless: key == "", RetryAfter: o.opts.RetryAfter}
	switch {
	case len(o.info.Key) > 0:
		w.Same, w.New = "with the same arguments", "give it another value for "+strings.Join(o.info.Key, ", ")
	case o.keyArgument != "":
		w.Same, w.New = "with the same "+o.keyArgument+" and the same arguments", "call again with a new "+o.keyArgument
	default:
		w.Same, w.New = "with the same key and the same arguments", "call again with a new key"
	}
	return w
}

func (o *offered) keyRequiredText() string {
	const text = "This tool changes something, and the call has nothing that tells a retry from a new action. Nothing was done. Call again with the same arguments and "
	const fresh = ": a new random value, such as a UUID, to be sent again, unchanged, with every retry of this action."
	switch {
	case len(o.info.Key) > 0:
		return text + "a value for " + strings.Join(o.info.Key, ", ") + ", by which the action is known."
	case o.keyArgument != "":
		return text + "the argument " + o.keyArgument + fresh
	default:
		return text + `a key in _meta["` + MetaKey + `"]` + fresh
	}
}

func argumentText(e *tool.ArgumentError) string {
	reason := e.Reason
	if strings.HasPrefix(reason, "cannot be read as ") {
		reason = "cannot be read" // the rest is the name of a Go type
	}
	if e.Field == "" {
		return "The arguments " + reason + "."
	}
	return "The argument " + e.Field + " " + reason + "." // cut and quoted where it is odd
}
