package arm

import (
	"encoding/json"
	"strings"

	"github.com/tooldedup/dedup/internal/recording"
)

// history knows the writes so far, to tell reused ids and repeated writes.
type history struct {
	ids    map[string]bool // tool_call_ids over the whole run
	reused int
	done   map[string]bool // session, tool and arguments
}

func newHistory() history { return history{ids: map[string]bool{}, done: map[string]bool{}} }

// add notes a write and reports whether it repeats an earlier one of its session
// with equal arguments. No recorded call is a re-delivery, so that is meant.
func (h *history) add(call *recording.Call) (repeated bool) {
	if h.ids[call.ToolCallID] {
		h.reused++
	}
	h.ids[call.ToolCallID] = true
	intent := call.Session + "\x00" + call.Tool + "\x00" + canonical(call.Arguments)
	repeated = h.done[intent]
	h.done[intent] = true
	return repeated
}

// canonical writes equal values as equal text.
func canonical(arguments json.RawMessage) string {
	var value any
	if json.Unmarshal(arguments, &value) != nil {
		return string(arguments)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return string(arguments)
	}
	return string(text)
}

// isRefusal reports whether an answer says that nothing was done.
func isRefusal(text string) bool {
	return strings.HasPrefix(text, "Error: ") || text == recording.Null
}
