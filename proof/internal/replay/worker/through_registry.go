package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// serveLines executes the deliveries on in and answers on out, one after the
// other, until in ends.
func serveLines(ctx context.Context, e *executor, in *json.Decoder, out *json.Encoder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Reading goes on while a delivery is executed, so that the end of the
	// driver cancels it.
	deliveries := make(chan Delivery)
	ended := make(chan error, 1)
	go func() {
		defer close(deliveries)
		defer cancel()
		ended <- readLines(ctx, in, deliveries)
	}()
	for delivery := range deliveries {
		before := e.waits.Load()
		answer, err := e.deliver(ctx, delivery)
		answer.ID, answer.Waits = delivery.ID, e.waits.Load()-before
		if err != nil {
			answer.Error, answer.Unknown = err.Error(), errors.Is(err, dedup.ErrOutcomeUnknown)
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return <-ended
}

func readLines(ctx context.Context, in *json.Decoder, deliveries chan<- Delivery) error {
	for {
		var delivery Delivery
		if err := in.Decode(&delivery); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a delivery: %w", err)
		}
		select {
		case deliveries <- delivery:
		case <-ctx.Done():
			return nil
		}
	}
}

// deliver executes a delivery in this process.
func (e *executor) deliver(ctx context.Context, d Delivery) (Answer, error) {
	domain := e.domains[d.Domain]
	if domain == nil {
		return Answer{}, fmt.Errorf("no domain %s", d.Domain)
	}
	t, ok := domain.tools[d.Tool]
	if !ok {
		return Answer{}, fmt.Errorf("no tool %s in domain %s", d.Tool, d.Domain)
	}
	ctx = effect.WithCallRef(ctx, d.Ref)
	if e.mode == Naive {
		return answerOf(domain.naive(ctx, t, d.Args))
	}
	if handle, pays := e.paying[d.Tool]; pays {
		return pay(ctx, handle, d)
	}
	answer, err := domain.registry.Invoke(ctx, tool.Invocation{
		Scope: d.Scope, Session: d.Session, Turn: d.Turn, CallID: d.ToolCallID,
		Tool: d.Tool, Args: d.Args,
	})
	return answerOfRecord(answer.JSON, answer.Replayed, answer.Recovered, err)
}

// answerOfRecord is answerOf where the result or the refusal is recorded.
func answerOfRecord(result json.RawMessage, replayed, recovered bool, err error) (Answer, error) {
	var refused *dedup.RefusedError
	if errors.As(err, &refused) {
		refusal := kit.Refusal{Message: refused.Message}
		return Answer{Text: refusal.Answer(), Replayed: refused.Replayed, Recovered: refused.Recovered}, nil
	}
	told, err := answerOf(result, err)
	told.Replayed, told.Recovered = replayed, recovered
	return told, err
}

// pay executes a delivery of a tool that pays.
func pay(ctx context.Context, handle *payment.Handle, d Delivery) (Answer, error) {
	key, err := dedup.KeyFromToolCall(d.Session, d.Turn, d.ToolCallID)
	if err != nil {
		return Answer{}, err
	}
	result, err := handle.Do(ctx, dedup.Call{Scope: d.Scope, Key: key}, payment.In{Ref: d.Ref, Args: d.Args})
	if _, parked := errors.AsType[*external.ParkedError](err); parked {
		return Answer{Parked: true}, nil
	}
	return answerOfRecord(result.Value.Answer, result.Replayed, result.Recovered, err)
}

// answerOf is what an agent is told of a tool's result. A refusal is an answer.
func answerOf(result json.RawMessage, err error) (Answer, error) {
	var refusal *kit.Refusal
	switch {
	case errors.As(err, &refusal):
		return Answer{Text: refusal.Answer()}, nil
	case err != nil:
		return Answer{}, err
	}
	return Answer{Text: kit.Text(result)}, nil
}
