// Package agent has two ways to run a ReAct agent of Eino. With both, a run that is killed at any
// point and started again with the same session continues where it was. Each call takes effect once.
//
// [RunRecorded] records the model's messages with package loop. [RunSaved] is for programs that save
// the messages themselves.
package agent

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/model"
	einotool "github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/tooldedup/dedup/tool"
)

// answer runs an agent. The agent makes its calls with call.
func answer(ctx context.Context, m model.ToolCallingChatModel, tools *tool.Registry, call callFunc, question string) (string, error) {
	offered, err := offer(tools, call)
	if err != nil {
		return "", err
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: m,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: offered},
		MaxStep:          40,
	})
	if err != nil {
		return "", err
	}
	last, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage(question)})
	if err != nil {
		return "", err // start the run again
	}
	return last.Content, nil
}

type callFunc func(ctx context.Context, name, id string, args json.RawMessage) (tool.Answer, error)

// offer describes the tools to the model.
func offer(tools *tool.Registry, call callFunc) (offered []einotool.BaseTool, err error) {
	for _, info := range tools.Tools() {
		text, err := info.InputSchema()
		if err != nil {
			return nil, err
		}
		in := new(jsonschema.Schema)
		if err := json.Unmarshal(text, in); err != nil {
			return nil, err
		}
		offered = append(offered, &invokable{
			call: call,
			info: &schema.ToolInfo{Name: info.Name, Desc: info.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(in)},
		})
	}
	return offered, nil
}

// invokable is a registered tool. Eino runs the calls of a message at once.
type invokable struct {
	info *schema.ToolInfo
	call callFunc
}

func (t *invokable) Info(context.Context) (*schema.ToolInfo, error) { return t.info, nil }

// InvokableRun returns what the model is told. An error ends the run.
func (t *invokable) InvokableRun(ctx context.Context, args string, _ ...einotool.Option) (string, error) {
	text, _, err := tool.Reply(t.call(ctx, t.info.Name, compose.GetToolCallID(ctx), json.RawMessage(args)))
	return text, err
}
