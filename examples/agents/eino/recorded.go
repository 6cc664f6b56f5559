package agent

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// RunRecorded answers a question of account. session names the conversation and the user's message
// in it. If RunRecorded fails, call it again with the same arguments.
func RunRecorded(ctx context.Context, m model.ToolCallingChatModel, tools *tool.Registry, account, session, question string) (string, error) {
	run := loop.New(tools, account, session)
	return answer(ctx, recorded{m, run}, tools, run.Call, question)
}

// recorded is a model that records its messages with [loop.Next].
type recorded struct {
	model.ToolCallingChatModel
	run *loop.Run
}

func (m recorded) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	bound, err := m.ToolCallingChatModel.WithTools(tools)
	return recorded{bound, m.run}, err
}

func (m recorded) Generate(ctx context.Context, history []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	message, err := loop.Next(ctx, m.run, func(ctx context.Context) (*schema.Message, error) {
		return m.ToolCallingChatModel.Generate(ctx, history, opts...)
	})
	if err != nil {
		return nil, err
	}
	var calls []tool.Invocation
	for _, c := range message.ToolCalls {
		calls = append(calls, tool.Invocation{Tool: c.Function.Name, CallID: c.ID, Args: json.RawMessage(c.Function.Arguments)})
	}
	return message, m.run.Message(calls...)
}

func (m recorded) Stream(ctx context.Context, history []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	message, err := m.Generate(ctx, history, opts...)
	if err != nil {
		return nil, err
	}
	return schema.StreamReaderFromArray([]*schema.Message{message}), nil
}
