package agentkill

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tooldedup/dedup"
)

// steps reports steps to the test, one at a time.
type steps struct {
	mu  sync.Mutex
	in  *json.Decoder
	out *json.Encoder
}

func (s *steps) reach(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	goOn := false
	if s.out.Encode(line{Step: step}) != nil || s.in.Decode(&goOn) != nil {
		os.Exit(1) // the test is gone
	}
}

// tracer reaches a step when a call is committed, and has not returned its answer.
type tracer struct {
	dedup.Tracer
	reach    func(string)
	messages atomic.Int32
}

// titleKey is the context's key of the title that a call's effect has got.
type titleKey struct{}

// nameCall gives the call of ctx a name in its last step.
func nameCall(ctx context.Context, title string) {
	if name, ok := ctx.Value(titleKey{}).(*string); ok {
		*name = title
	}
}

func (t *tracer) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context {
	return context.WithValue(ctx, titleKey{}, new(string))
}

func (t *tracer) TraceCallEnd(ctx context.Context, data dedup.CallEndData) {
	switch title, _ := ctx.Value(titleKey{}).(*string); {
	case data.Err != nil:
	case data.Tool != openTicket:
		t.reach(fmt.Sprintf("message %d is recorded", t.messages.Add(1)))
	case *title == "":
		t.reach("a call is replayed")
	default:
		t.reach(*title + committed)
	}
}

const committed = " is committed"
