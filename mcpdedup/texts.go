package mcpdedup

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// sameKey says how a retry is made.
func (f *failing) sameKey() string {
	switch {
	case f.info.KeyInArguments():
		return "with the same arguments"
	case f.keyArgument != "":
		return "with the same " + f.keyArgument + " and the same arguments"
	default:
		return "with the same key and the same arguments"
	}
}

// again says how to try again after a failure that may pass.
func (f *failing) again(key string) string {
	if key == "" {
		return "Calling again does no harm."
	}
	return "If you call again, do so " + f.sameKey() + ": it is carried out no more than once."
}

func (f *failing) keyRequiredText() string {
	const text = "This tool changes something, and the call has nothing that tells a retry from a new action. Nothing was done. Call again with the same arguments and "
	switch {
	case f.info.KeyInArguments():
		return text + "a value for " + strings.Join(f.info.Key, ", ") + ", by which the action is known."
	case f.keyArgument != "":
		return text + "the argument " + f.keyArgument + ": a new random value, such as a UUID, to be sent again, unchanged, with every retry of this action."
	default:
		return text + `a key in _meta["` + f.opts.MetaKey + `"]: a new random value, such as a UUID, to be sent again, unchanged, with every retry of this action.`
	}
}

func (f *failing) reusedText(e *dedup.Error) string {
	what := "with other arguments"
	if len(e.Changed) > 0 {
		what = "with other values of " + names(e.Changed)
		if !e.Complete {
			what += ", and perhaps of more"
		}
	}
	text := fmt.Sprintf("The key of this call was used before, at %s, %s. Nothing was done. If this is a retry, send the arguments of the first time. ", seconds(e.FirstAt), what)
	switch {
	case f.info.KeyInArguments():
		return text + "If it is a new action, give it another value for " + strings.Join(f.info.Key, ", ") + "."
	case f.keyArgument != "":
		return text + "If it is a new action, call again with a new " + f.keyArgument + "."
	default:
		return text + "If it is a new action, call again with a new key."
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

// maxShown bounds what of a client's own names comes back to it.
const maxShown = 100

// shown returns the name of an argument as it is, if it is a plain one.
func shown(name string) string {
	quoted := strconv.QuoteToASCII(name)
	if len(quoted) > maxShown {
		return quoted[:maxShown] + `…"`
	}
	if quoted == `"`+name+`"` {
		return name
	}
	return quoted
}

func names(all []string) string {
	const most = 20
	var b strings.Builder
	for i, name := range all {
		switch {
		case i == most:
			return b.String() + " and more"
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(shown(name))
	}
	return b.String()
}

func seconds(t time.Time) string { return t.UTC().Format(time.RFC3339) }
