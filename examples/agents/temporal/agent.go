// Package agent is an agent on Temporal. Temporal keeps the model's messages and retries an activity
// until it has its result. The library makes sure that a retried call has no second effect.
package agent

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Text    string `json:"text,omitempty"`
	IsError bool   `json:"is_error,omitempty"`
	CallID  string `json:"call_id,omitempty"` // of a result
	Calls   []Call `json:"calls,omitempty"`
}

// Call is a call of a message. Its ID must be unique in the message.
type Call struct {
	ID   string          `json:"id"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Run is the workflow that answers a question of account. The workflow's id names the conversation
// and the user's message in it. A retried activity has the same session, turn and id.
func Run(ctx workflow.Context, account, question string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Minute})
	session := workflow.GetInfo(ctx).WorkflowExecution.ID
	history := []Message{{Role: "user", Text: question}}
	for turn := 1; ; turn++ {
		var message Message
		if err := workflow.ExecuteActivity(ctx, "Ask", history).Get(ctx, &message); err != nil {
			return "", err
		}
		if len(message.Calls) == 0 {
			return message.Text, nil
		}
		history = append(history, message)
		var results []workflow.Future
		for _, c := range message.Calls {
			results = append(results, workflow.ExecuteActivity(ctx, "Invoke", tool.Invocation{
				Scope: account, Session: session, Turn: turn, CallID: c.ID, Tool: c.Tool, Args: c.Args,
			}))
		}
		for _, result := range results {
			var message Message
			if err := result.Get(ctx, &message); err != nil {
				return "", err
			}
			history = append(history, message)
		}
	}
}

// Activities are the activities of [Run].
type Activities struct {
	Tools *tool.Registry
	Model func(ctx context.Context, history []Message) (Message, error)
}

// Ask returns the model's next message.
func (a *Activities) Ask(ctx context.Context, history []Message) (Message, error) {
	return a.Model(ctx, history)
}

// Invoke makes a call and returns the message for the model. Temporal retries every error but those
// that no retry changes. [tool.Registry.Invoke] can be registered as an activity, too.
func (a *Activities) Invoke(ctx context.Context, call tool.Invocation) (Message, error) {
	text, isError, err := tool.Reply(a.Tools.Invoke(ctx, call))
	switch {
	case err == nil:
		return Message{Role: "tool", Text: text, IsError: isError, CallID: call.CallID}, nil
	case dedup.IsAnswer(err):
		return Message{}, temporal.NewNonRetryableApplicationError(err.Error(), "dedup", err)
	default:
		return Message{}, err
	}
}
