package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/tooldedup/dedup/internal/agentkill"
)

func TestMain(m *testing.M) {
	agentkill.Main(m, agentkill.Agent{Name: "anthropic", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
		model := httptest.NewServer(fakeModel{s})
		defer model.Close()
		client := anthropic.NewClient(option.WithBaseURL(model.URL), option.WithAPIKey("none"))
		return Run(ctx, client, s.Tools, s.Scope, s.Session, "Open six tickets.")
	}})
}

func TestKills(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "anthropic")
}

func TestLongKills(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "anthropic")
}

// fakeModel answers POST /v1/messages.
type fakeModel struct{ *agentkill.Start }

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text,omitempty"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Content []block         `json:"content,omitempty"` // of a result
}

func (m fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Content []block }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []string
	for _, message := range request.Messages {
		for _, b := range message.Content {
			if b.Type == "tool_result" {
				results = append(results, b.Content[0].Text)
			}
		}
	}
	calls, text := m.Answer(results)
	content, stop := []block{{Type: "text", Text: text}}, "end_turn"
	if len(calls) > 0 {
		content, stop = nil, "tool_use"
	}
	for _, c := range calls {
		content = append(content, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Args)})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": content, "stop_reason": stop,
		"usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
	})
}
