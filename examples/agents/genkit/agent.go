// Package agent is an agent on Genkit. A run that is killed at any point and started again with the
// same session continues where it was. Each call takes effect once.
package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// Run answers a question of account. session names the conversation and the user's message in it.
// offered are the tools that [Define] returned. If Run fails, call it again with the same arguments.
func Run(ctx context.Context, g *genkit.Genkit, model ai.Model, tools *tool.Registry, offered []ai.ToolRef, account, session, question string) (string, error) {
	run := loop.New(tools, account, session)
	response, err := genkit.Generate(loop.With(ctx, run), g,
		ai.WithModel(model), ai.WithTools(offered...), ai.WithMiddleware(record(run)), ai.WithMaxTurns(20), ai.WithPrompt("%s", question))
	if err != nil {
		return "", err // not for the model: start the run again
	}
	return response.Text(), nil
}

// record returns a middleware that records the model's messages. It does not record the requests,
// each of which has the whole history.
func record(run *loop.Run) ai.ModelMiddleware {
	return func(ask ai.ModelFunc) ai.ModelFunc {
		return func(ctx context.Context, request *ai.ModelRequest, stream ai.ModelStreamCallback) (*ai.ModelResponse, error) {
			response, err := loop.Next(ctx, run, func(ctx context.Context) (*ai.ModelResponse, error) {
				response, err := ask(ctx, request, stream)
				if err == nil {
					response.Request = nil
				}
				return response, err
			})
			if err != nil {
				return nil, err
			}
			response.Request = request
			restoreSignatures(response.Message)
			var calls []tool.Invocation
			for _, c := range response.ToolRequests() {
				args, err := json.Marshal(c.Input)
				if err != nil {
					return nil, err
				}
				calls = append(calls, tool.Invocation{Tool: c.Name, CallID: c.Ref, Args: args})
			}
			return response, run.Message(calls...)
		}
	}
}

// restoreSignatures decodes the signatures of Gemini's thoughts, which are base64 in JSON. The
// plugin googlegenai sends a signature back to the model only if it is a []byte.
func restoreSignatures(m *ai.Message) {
	if m == nil {
		return
	}
	for _, part := range m.Content {
		if text, ok := part.Metadata["signature"].(string); ok {
			if signature, err := base64.StdEncoding.DecodeString(text); err == nil {
				part.Metadata["signature"] = signature
			}
		}
	}
}

// Define registers the tools with Genkit. Call it when the program starts. Genkit runs the calls of
// a message at once and gives a tool only its arguments. The tool finds the run in its context.
func Define(g *genkit.Genkit, tools *tool.Registry) (offered []ai.ToolRef, err error) {
	for _, info := range tools.Tools() {
		text, err := info.InputSchema()
		if err != nil {
			return nil, err
		}
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			return nil, err
		}
		offered = append(offered, genkit.DefineTool(g, info.Name, info.Description, func(ctx *ai.ToolContext, in any) (string, error) {
			args, err := json.Marshal(in)
			if err != nil {
				return "", err
			}
			text, _, err := tool.Reply(loop.From(ctx).Call(ctx, info.Name, "", args))
			return text, err
		}, ai.WithInputSchema(schema)))
	}
	return offered, nil
}
