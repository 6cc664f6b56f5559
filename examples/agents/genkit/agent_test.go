package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/tooldedup/dedup/internal/agentkill"
)

func TestMain(m *testing.M) {
	agentkill.Main(m, agentkill.Agent{Name: "genkit", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
		g := genkit.Init(ctx)
		model := genkit.DefineModel(g, "fake/model", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, fakeModel{s}.generate)
		offered, err := Define(g, s.Tools)
		if err != nil {
			return "", err
		}
		return Run(ctx, g, model, s.Tools, offered, s.Scope, s.Session, "Open six tickets.")
	}})
}

func TestKills(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "genkit")
}

func TestLongKills(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "genkit")
}

// fakeModel signs its calls as Gemini does, and fails if a signature does not come back.
type fakeModel struct{ *agentkill.Start }

var signature = []byte("thought")

func (m fakeModel) generate(_ context.Context, request *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	var results []string
	for _, message := range request.Messages {
		for _, part := range message.Content {
			if part.IsToolRequest() && !reflect.DeepEqual(part.Metadata["signature"], signature) {
				return nil, fmt.Errorf("the signature of a call is %v", part.Metadata["signature"])
			}
			if part.IsToolResponse() {
				results = append(results, part.ToolResponse.Output.(string))
			}
		}
	}
	calls, text := m.Answer(results)
	if len(calls) == 0 {
		return &ai.ModelResponse{Message: ai.NewModelTextMessage(text), FinishReason: ai.FinishReasonStop}, nil
	}
	var parts []*ai.Part
	for _, c := range calls {
		var in any
		if err := json.Unmarshal([]byte(c.Args), &in); err != nil {
			return nil, err
		}
		part := ai.NewToolRequestPart(&ai.ToolRequest{Name: c.Name, Ref: c.ID, Input: in})
		part.Metadata = map[string]any{"signature": signature}
		parts = append(parts, part)
	}
	return &ai.ModelResponse{Message: ai.NewModelMessage(parts...), FinishReason: ai.FinishReasonStop}, nil
}
