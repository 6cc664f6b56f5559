// Package loop joins a [tool.Registry] and an agent's loop. A run that was interrupted at any step
// is started again from its beginning and continues where it was:
//
//	run := loop.New(tools, account, "17/5") // conversation 17, the user's message 5
//	for {
//		message, err := loop.Next(ctx, run, func(ctx context.Context) (Message, error) { return model.Ask(ctx, history) })
//		…
//		err = run.Message(calls...) // of the message
//		for each call {
//			answer, err := run.Call(ctx, call.Name, call.ID, call.Arguments)
//			text, isError, err := tool.Reply(answer, err) // an error ends the run: resume it
//		}
//	}
//
// [Next] records each message of the model. A resumed run gets the recorded messages with the same
// ids, so its calls have the same keys: each takes effect once and returns its recorded answer. A
// [tool.ReadOnly] call has no record and runs again: its answer may differ from the one that the
// model saw before the recorded message. A read of class [tool.Idempotent] is recorded. The history
// may be compacted, because the run counts the turns.
//
// The session names the conversation and the user's message in it. The user's next message is a new
// session. An agent that a tool starts needs its own session, made from its parent's call, such as
// "17/5/2/call_0". With another scope or session a run is another run.
//
// The messages are records of the tool "model". Retention, Reset, the command and the console apply
// to them as to any others.
package loop

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// Run is an agent's work on one request of its user. Its calls may be concurrent; its model returns
// one message after the other.
type Run struct {
	tools          *tool.Registry
	scope, session string

	mu      sync.Mutex
	turn    int // of the model's last message, from 1
	message *tool.Message
	calls   []tool.Invocation
	made    []bool
}

// New returns a run for scope, the authenticated principal. session names the conversation and the
// user's message in it, such as "17/5", within scope.
func New(tools *tool.Registry, scope, session string) *Run {
	return &Run{tools: tools, scope: scope, session: session}
}

// Message registers the calls of the model's last message by Tool, CallID and Args. It makes none
// of them. The error is a *[dedup.InvalidError] if Next has returned no message yet, or if a call
// names another scope or session than the run.
func (r *Run) Message(calls ...tool.Invocation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == 0 {
		return invalid("Turn", "is not known; call Next first, which counts the model's messages")
	}
	all := make([]tool.Invocation, len(calls))
	for i, c := range calls {
		switch {
		case c.Scope != "" && c.Scope != r.scope:
			return invalid("Scope", "is not that of the run; a run acts on behalf of one principal")
		case c.Session != "" && c.Session != r.session:
			return invalid("Session", "is not that of the run; an agent inside of it has a Run of its own")
		}
		c.Scope, c.Session, c.Turn, c.Request = r.scope, r.session, r.turn, r.session
		all[i] = c
	}
	r.message, r.calls, r.made = r.tools.Message(all...), all, make([]bool, len(all))
	return nil
}

// Call makes a call of the message: the first one that was not made yet and has this tool, these
// arguments and, if id is not empty, this id. A call with an id may be made again and returns the
// same answer. Call returns the errors of [tool.Registry.Invoke]. If the message has no such call,
// it returns a *[dedup.InvalidError] with Field "CallID".
func (r *Run) Call(ctx context.Context, name, id string, args json.RawMessage) (tool.Answer, error) {
	message, i := r.take(name, id, args)
	if message == nil {
		return tool.Answer{}, invalid("CallID", "is that of no call of the model's last message that fits and was not made; give Message all calls of the message, unchanged")
	}
	return message.Invoke(ctx, i)
}

func (r *Run) take(name, id string, args json.RawMessage) (*tool.Message, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := -1
	for i, c := range r.calls {
		if c.Tool != name || id != "" && id != c.CallID || !equal(c.Args, args) {
			continue
		}
		if !r.made[i] {
			r.made[i] = true
			return r.message, i
		}
		if dedup.UsableToolCallID(id, name) {
			again = i
		}
	}
	if again < 0 {
		return nil, 0
	}
	return r.message, again
}

// equal compares arguments by value, or byte by byte if they are not JSON.
func equal(a, b json.RawMessage) bool {
	a, b = door.Args(a), door.Args(b)
	of, errA := dedup.FingerprintOf(a)
	with, errB := dedup.FingerprintOf(b)
	return errA == nil && errB == nil && of == with || string(a) == string(b)
}

// Next returns the model's next message: the recorded one, or the result of ask, which is then
// recorded. If two processes ask at once, both get the message that is recorded first. ask runs
// outside any transaction. Next returns its error as it is and records nothing, so Next may be
// called again. encoding/json must read an M as it was written.
//
// A [MessageError] means that a message cannot be recorded because it is longer than
// Options.MaxResultBytes. It also means that a recorded one has expired, is blocked, or no longer
// fits M. A run without its messages cannot be resumed.
func Next[M any](ctx context.Context, r *Run, ask func(ctx context.Context) (M, error)) (M, error) {
	r.mu.Lock()
	turn := r.turn + 1
	r.mu.Unlock()
	none := *new(M)
	var call dedup.Call
	var err error
	if call, err = r.record(turn); err != nil {
		return none, err
	}
	known, err := r.tools.Deduper().Lookup(ctx, call.Scope, call.Tool, call.Key)
	if err != nil {
		return none, err
	}
	var m M
	asked := known.State == dedup.StateNotFound || known.State == dedup.StateInFlight
	if asked {
		if m, err = ask(ctx); err != nil {
			return none, err
		}
	}
	result, err := keep(ctx, r.tools.Deduper(), call, m, asked)
	if err != nil {
		if dedup.IsAnswer(err) {
			err = &MessageError{Turn: turn, Err: err}
		}
		return none, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn, r.message, r.calls, r.made = turn, nil, nil, nil
	return result, nil
}

type contextKey struct{}

// With returns a context with r, for frameworks that pass the context on to each tool.
func With(ctx context.Context, r *Run) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// From returns the run of ctx, nil if there is none.
func From(ctx context.Context) *Run {
	r, _ := ctx.Value(contextKey{}).(*Run)
	return r
}

func invalid(field, reason string) error {
	return &dedup.InvalidError{What: "call", Field: field, Reason: reason}
}

var errForgotten = errors.New("loop: the record of the message was freed while it was read; start the run again")
