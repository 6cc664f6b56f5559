package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/tooldedup/dedup/internal/agentkill"
)

func TestMain(m *testing.M) {
	agentkill.Main(m, agentkill.Agent{Name: "openai", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
		model := httptest.NewServer(fakeModel{s})
		defer model.Close()
		client := openai.NewClient(option.WithBaseURL(model.URL), option.WithAPIKey("none"))
		return Run(ctx, client, s.Tools, s.Scope, s.Session, "Open six tickets.")
	}})
}

func TestKills(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "openai")
}

func TestLongKills(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "openai")
}

// fakeModel answers POST /chat/completions.
type fakeModel struct{ *agentkill.Start }

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type message struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

func (m fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Messages []message }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []string
	for _, told := range request.Messages {
		if told.Role == "tool" {
			results = append(results, told.Content)
		}
	}
	calls, text := m.Answer(results)
	answer := message{Role: "assistant", Content: text}
	for _, c := range calls {
		answer.ToolCalls = append(answer.ToolCalls, toolCall{ID: c.ID, Type: "function", Function: function{c.Name, c.Args}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl_1", "object": "chat.completion", "model": "fake",
		"choices": []map[string]any{{"index": 0, "finish_reason": "stop", "message": answer}},
	})
}
