// Package agent is an agent's loop on openai-go. A run that is killed at any point and started again
// with the same session continues where it was. Each call takes effect once.
package agent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// Run answers a question of account. session names the conversation and the user's message in it.
// If Run fails, call it again with the same arguments.
func Run(ctx context.Context, client openai.Client, tools *tool.Registry, account, session, question string) (string, error) {
	offered, err := offer(tools)
	if err != nil {
		return "", err
	}
	run := loop.New(tools, account, session)
	history := []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}
	for {
		message, err := next(ctx, run, client, openai.ChatCompletionNewParams{
			Model: openai.ChatModelGPT5_2, Messages: history, Tools: offered,
		})
		if err != nil {
			return "", err
		}
		if len(message.ToolCalls) == 0 {
			return message.Content, nil
		}
		var calls []tool.Invocation
		for _, c := range message.ToolCalls {
			calls = append(calls, tool.Invocation{Tool: c.Function.Name, CallID: c.ID, Args: json.RawMessage(c.Function.Arguments)})
		}
		if err := run.Message(calls...); err != nil {
			return "", err
		}
		history = append(history, message.ToParam())
		for _, c := range calls {
			text, _, err := tool.Reply(run.Call(ctx, c.Tool, c.CallID, c.Args))
			if err != nil {
				return "", err // not for the model: start the run again
			}
			history = append(history, openai.ToolMessage(text, c.CallID))
		}
	}
}

// next returns the model's next message. It is recorded as the API sent it.
func next(ctx context.Context, run *loop.Run, client openai.Client, params openai.ChatCompletionNewParams) (message openai.ChatCompletionMessage, err error) {
	raw, err := loop.Next(ctx, run, func(ctx context.Context) (json.RawMessage, error) {
		completion, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		if len(completion.Choices) == 0 {
			return nil, errors.New("the model gave no choice")
		}
		return json.RawMessage(completion.Choices[0].Message.RawJSON()), nil
	})
	if err != nil {
		return message, err
	}
	return message, json.Unmarshal(raw, &message)
}

// offer describes the tools to the model.
func offer(tools *tool.Registry) (offered []openai.ChatCompletionToolUnionParam, err error) {
	for _, info := range tools.Tools() {
		schema, err := info.InputSchema()
		if err != nil {
			return nil, err
		}
		function := openai.FunctionDefinitionParam{Name: info.Name, Description: openai.String(info.Description)}
		if err := json.Unmarshal(schema, &function.Parameters); err != nil {
			return nil, err
		}
		offered = append(offered, openai.ChatCompletionFunctionTool(function))
	}
	return offered, nil
}
