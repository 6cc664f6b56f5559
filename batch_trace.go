package dedup

import (
	"context"
	"time"
)

// batchTracer is called after every DoBatch and DoTogether that has ended with answers.
// SlogTracer is one, to write one line for all the replays of a batch.
type batchTracer interface {
	traceBatch(ctx context.Context, tally batchTally, took time.Duration)
}

// batchTally is what became of a batch.
type batchTally struct {
	BatchProgress
	// scope and tool are those of all its calls, each empty where they differ.
	scope, tool string
}

// count adds a call that has come to its end.
func (b *batchTally) count(asked Call, c *call, err error) {
	if b.Calls == 0 {
		b.scope, b.tool = asked.Scope, asked.Tool
	}
	if b.scope != asked.Scope {
		b.scope = ""
	}
	if b.tool != asked.Tool {
		b.tool = ""
	}
	b.Calls++
	if err != nil {
		b.Failed++
	}
	switch {
	case c.rec.Outcome == "":
	case c.executed:
		b.Executed++
	default:
		b.Replayed++
	}
}

// batchKey marks the contexts of events of a batch's calls.
type batchKey struct{}

func ofBatch(ctx context.Context) bool { return ctx.Value(batchKey{}) != nil }

// tracedBatch returns the context for the events of a batch's calls.
func (d *Deduper) tracedBatch(ctx context.Context) context.Context {
	if len(d.trace.batch) == 0 {
		return ctx
	}
	return context.WithValue(ctx, batchKey{}, true)
}

func (d *Deduper) traceBatch(ctx context.Context, tally batchTally, took time.Duration) {
	if tally.Calls == 0 {
		return
	}
	for _, t := range d.trace.batch {
		t.traceBatch(ctx, tally, took)
	}
}
