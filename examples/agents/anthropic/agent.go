// Package agent is an agent's loop on the Anthropic SDK. A run that is killed at any point and
// started again with the same session continues where it was. Each call takes effect once.
package agent

import (
	"context"
	"encoding/json"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// Run answers a question of account. session names the conversation and the user's message in it.
// If Run fails, call it again with the same arguments.
func Run(ctx context.Context, client anthropic.Client, tools *tool.Registry, account, session, question string) (string, error) {
	offered, err := offer(tools)
	if err != nil {
		return "", err
	}
	run := loop.New(tools, account, session)
	history := []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))}
	for {
		message, err := next(ctx, run, client, anthropic.MessageNewParams{
			Model: anthropic.ModelClaudeOpus5_5, MaxTokens: 4096, Messages: history, Tools: offered,
		})
		if err != nil {
			return "", err
		}
		var uses []anthropic.ToolUseBlock
		var calls []tool.Invocation
		text := ""
		for _, block := range message.Content {
			switch block := block.AsAny().(type) {
			case anthropic.TextBlock:
				text += block.Text
			case anthropic.ToolUseBlock:
				uses = append(uses, block)
				calls = append(calls, tool.Invocation{Tool: block.Name, CallID: block.ID, Args: block.Input})
			}
		}
		if len(calls) == 0 {
			return text, nil
		}
		if err := run.Message(calls...); err != nil {
			return "", err
		}
		var results []anthropic.ContentBlockParamUnion
		for _, use := range uses {
			text, isError, err := tool.Reply(run.Call(ctx, use.Name, use.ID, use.Input))
			if err != nil {
				return "", err // not for the model: start the run again
			}
			results = append(results, anthropic.NewToolResultBlock(use.ID, text, isError))
		}
		history = append(history, message.ToParam(), anthropic.NewUserMessage(results...))
	}
}

// next returns the model's next message. It is recorded as the API sent it.
func next(ctx context.Context, run *loop.Run, client anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	raw, err := loop.Next(ctx, run, func(ctx context.Context) (json.RawMessage, error) {
		message, err := client.Messages.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(message.RawJSON()), nil
	})
	if err != nil {
		return nil, err
	}
	message := new(anthropic.Message)
	return message, json.Unmarshal(raw, message)
}

// offer describes the tools to the model.
func offer(tools *tool.Registry) (offered []anthropic.ToolUnionParam, err error) {
	for _, info := range tools.Tools() {
		schema, err := info.InputSchema()
		if err != nil {
			return nil, err
		}
		param := anthropic.ToolParam{Name: info.Name, Description: anthropic.String(info.Description)}
		if err := json.Unmarshal(schema, &param.InputSchema); err != nil {
			return nil, err
		}
		offered = append(offered, anthropic.ToolUnionParam{OfTool: &param})
	}
	return offered, nil
}
