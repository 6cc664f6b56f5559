package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/tool"
)

// serveDelivery executes a delivery that arrives as a whole.
func (s *server) serveDelivery(w http.ResponseWriter, r *http.Request) {
	var d Delivery
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		http.Error(w, "reading a delivery: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.deliver(r.Context(), d)
	if err != nil {
		answer.Error = err.Error()
	}
	_ = json.NewEncoder(w).Encode(answer) // a caller without the answer asks again
}

// deliver executes a delivery in this process.
func (s *server) deliver(ctx context.Context, d Delivery) (Answer, error) {
	domain := s.domains[d.Domain]
	if domain == nil {
		return Answer{}, fmt.Errorf("no domain %s", d.Domain)
	}
	t, ok := domain.tools[d.Tool]
	if !ok {
		return Answer{}, fmt.Errorf("no tool %s in domain %s", d.Tool, d.Domain)
	}
	ctx = ledger.WithRef(ctx, d.Ref)
	if s.mode == Naive {
		out, err := domain.naive(ctx, t)
		return answerOf(out, false, err)
	}
	result, err := domain.registry.Invoke(ctx, tool.Invocation{
		Scope: d.Scope, Session: d.Session, Turn: d.Turn, CallID: d.ToolCallID,
		Tool: d.Tool, Args: d.input(),
	})
	var out ledger.Out
	if err == nil {
		err = json.Unmarshal(result.JSON, &out)
	}
	return answerOf(out, result.Replayed, err)
}

func (d Delivery) key() (string, error) {
	return dedup.KeyFromToolCall(d.Session, d.Turn, d.ToolCallID)
}

// answerOf returns an agent's answer from a tool's result. A refusal is an answer, with a record or
// without.
func answerOf(out ledger.Out, replayed bool, err error) (Answer, error) {
	if recorded, ok := errors.AsType[*dedup.RefusedError](err); ok {
		return Answer{Text: recorded.Message, Refused: true, Replayed: recorded.Replayed}, nil
	}
	if refusal, ok := errors.AsType[*ledger.Refusal](err); ok {
		return Answer{Text: refusal.Text, Refused: true}, nil
	}
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: out.Text, Entry: out.Entry, Replayed: replayed}, nil
}

// registryClient sends deliveries to the worker's process.
type registryClient struct {
	base string
	web  *http.Client
}

// Deliver implements Client.
func (c *registryClient) Deliver(ctx context.Context, d Delivery) (Answer, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return Answer{}, err
	}
	response, body, err := lab.Ask(ctx, c.web, http.MethodPost, c.base+"/", nil, text)
	switch {
	case err != nil:
		return Answer{}, err
	case response.StatusCode != http.StatusOK:
		return Answer{}, errors.New(response.Status)
	}
	var answer Answer
	if err := json.Unmarshal(body, &answer); err != nil {
		return Answer{}, fmt.Errorf("reading the answer: %w", err)
	}
	if answer.Error != "" {
		return Answer{}, errors.New(answer.Error)
	}
	return answer, nil
}

// Close implements Client.
func (c *registryClient) Close() { c.web.CloseIdleConnections() }
