package agentkill

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/tooldedup/dedup"
)

// Call is a call as the fake model makes it.
type Call struct{ ID, Name, Args string }

// perMessage is the number of calls in a message, and messages the number of messages that have
// any.
const perMessage, messages = 3, 2

// Answer returns the next message of the fake model, which has got the results of its calls: a
// message of calls, or a last text, which repeats the results. Asked again the model makes the same
// calls in another order, under new ids.
func (s *Start) Answer(results []string) (calls []Call, text string) {
	s.Reach(fmt.Sprintf("message %d is made", 1+len(results)/perMessage))
	if len(results) == messages*perMessage {
		return nil, "[" + strings.Join(results, ",") + "]"
	}
	for _, i := range rand.Perm(perMessage) {
		args, _ := json.Marshal(ticketIn{title(len(results) + i)})
		calls = append(calls, Call{ID: "call_" + dedup.NewKey(), Name: openTicket, Args: string(args)})
	}
	return calls, ""
}

func title(i int) string { return fmt.Sprintf("ticket %d", i+1) }
