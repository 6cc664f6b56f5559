package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/tooldedup/dedup/internal/agentkill"
)

func TestMain(m *testing.M) {
	agentkill.Main(m,
		agentkill.Agent{Name: "recorded", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
			return RunRecorded(ctx, fakeModel{s}, s.Tools, s.Scope, s.Session, "Open six tickets.")
		}},
		agentkill.Agent{Name: "saved", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
			return RunSaved(ctx, s.Pool, fakeModel{s}, s.Tools, s.Scope, s.Session, "Open six tickets.")
		}})
}

func TestKillsOfRecorded(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "recorded")
}

func TestLongKillsOfRecorded(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "recorded")
}

func TestKillsOfSaved(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "saved", Messages)
}

func TestLongKillsOfSaved(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "saved", Messages)
}

type fakeModel struct{ *agentkill.Start }

func (m fakeModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

func (m fakeModel) Generate(_ context.Context, history []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	var results []string
	for _, message := range history {
		if message.Role == schema.Tool {
			results = append(results, message.Content)
		}
	}
	calls, text := m.Answer(results)
	answer := schema.AssistantMessage(text, nil)
	for _, c := range calls {
		answer.ToolCalls = append(answer.ToolCalls, schema.ToolCall{ID: c.ID, Type: "function", Function: schema.FunctionCall{Name: c.Name, Arguments: c.Args}})
	}
	return answer, nil
}

func (m fakeModel) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	return nil, errors.New("not asked to stream")
}
