package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/table"
)

// MultiTracer returns a tracer that passes every event on to all of tracers
// that take it, in order.
func MultiTracer(tracers ...Tracer) Tracer { return multiTracer(tracers) }

type multiTracer []Tracer

// tracers are a Tracer's interfaces, sorted out once.
type tracers struct {
	executed  []ExecutedTracer
	replayed  []ReplayedTracer
	wait      []WaitTracer
	conflict  []ConflictTracer
	keyReused []KeyReusedTracer
	expired   []ExpiredTracer
	retried   []RetriedTracer
	broken    []BrokenTracer
	reset     []ResetTracer
	swept     []SweptTracer
	batch     []batchTracer
}

func newTracers(t Tracer) (tracers, error) {
	var all tracers
	return all, all.add(t)
}

func (ts *tracers) add(t Tracer) error {
	if t == nil {
		return nil
	}
	if many, ok := t.(multiTracer); ok {
		for _, one := range many {
			if err := ts.add(one); err != nil {
				return err
			}
		}
		return nil
	}
	taken := collect(&ts.executed, t)
	taken = collect(&ts.replayed, t) || taken
	taken = collect(&ts.wait, t) || taken
	taken = collect(&ts.conflict, t) || taken
	taken = collect(&ts.keyReused, t) || taken
	taken = collect(&ts.expired, t) || taken
	taken = collect(&ts.retried, t) || taken
	taken = collect(&ts.broken, t) || taken
	taken = collect(&ts.reset, t) || taken
	taken = collect(&ts.swept, t) || taken
	taken = collect(&ts.batch, t) || taken
	if !taken {
		return invalidOption("Tracer", "implements none of the tracer interfaces; is it a value where a pointer is needed?")
	}
	return nil
}

func collect[T any](list *[]T, t Tracer) bool {
	one, ok := t.(T)
	if ok {
		*list = append(*list, one)
	}
	return ok
}

func callData(id table.Identity) CallData {
	return CallData{Scope: id.Scope, Tool: id.Tool, Key: id.Key, KeyHash: KeyHash(id.Key)}
}

func (c *call) traceExecuted(ctx context.Context) {
	c.traceWaited(ctx, nil)
	if len(c.d.trace.executed) == 0 {
		return
	}
	data := ExecutedData{
		CallData: callData(c.Identity), Refused: c.rec.Outcome == table.Refused, CreatedAt: c.rec.CreatedAt,
		Duration: c.took - c.waiter.waited, Waited: c.waiter.waited, Attempts: c.attempts,
	}
	for _, t := range c.d.trace.executed {
		t.TraceExecuted(ctx, data)
	}
}

func (c *call) traceReplayed(ctx context.Context) {
	c.traceWaited(ctx, nil)
	if len(c.d.trace.replayed) == 0 {
		return
	}
	data := ReplayedData{
		CallData: callData(c.Identity), Refused: c.rec.Outcome == table.Refused, Recovered: c.recovered,
		FirstAt: c.rec.CreatedAt, Age: c.rec.Age(), Waited: c.waiter.waited,
	}
	for _, t := range c.d.trace.replayed {
		t.TraceReplayed(ctx, data)
	}
}

// traceJudged reports a record that answers with an error.
func (c *call) traceJudged(ctx context.Context, err error) {
	var reused *Error
	switch {
	case errors.Is(err, ErrRefused):
		c.traceReplayed(ctx)
		return
	case errors.Is(err, ErrKeyReused) && errors.As(err, &reused) && len(c.d.trace.keyReused) > 0:
		data := KeyReusedData{CallData: callData(c.Identity), FirstAt: c.rec.CreatedAt, Age: c.rec.Age(), Changed: reused.Changed}
		for _, t := range c.d.trace.keyReused {
			t.TraceKeyReused(ctx, data)
		}
	case errors.Is(err, ErrExpired) && len(c.d.trace.expired) > 0:
		data := ExpiredData{CallData: callData(c.Identity), FirstAt: c.rec.CreatedAt, Age: c.rec.Age()}
		for _, t := range c.d.trace.expired {
			t.TraceExpired(ctx, data)
		}
	}
	c.traceWaited(ctx, nil)
}

// traceFailure reports a call that came to no record.
func (c *call) traceFailure(ctx context.Context, err error) {
	c.traceWaited(ctx, err)
	if len(c.d.trace.broken) > 0 && errors.Is(err, ErrBroken) {
		data := BrokenData{CallData: callData(c.Identity), Err: err}
		for _, t := range c.d.trace.broken {
			t.TraceBroken(ctx, data)
		}
	}
}

// traceWaitStart reports each kind of wait once: known is whether it has.
func (c *call) traceWaitStart(ctx context.Context, known *bool, inProcess bool) {
	if *known {
		return
	}
	*known = true
	if len(c.d.trace.wait) == 0 {
		return
	}
	data := WaitStartData{CallData: callData(c.Identity), InProcess: inProcess}
	for _, t := range c.d.trace.wait {
		t.TraceWaitStart(ctx, data)
	}
}

func (c *call) traceWaited(ctx context.Context, err error) {
	waited := c.waiter.waited
	if waited == 0 || len(c.d.trace.wait) == 0 {
		return
	}
	data := WaitedData{CallData: callData(c.Identity), Waited: waited, Err: err}
	for _, t := range c.d.trace.wait {
		t.TraceWaited(ctx, data)
	}
}

func (c *call) traceConflict(ctx context.Context, err error, resolved bool) {
	if len(c.d.trace.conflict) == 0 {
		return
	}
	data := ConflictData{CallData: callData(c.Identity), Resolved: resolved}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		data.SQLState, data.Table, data.Constraint = server.Code, server.TableName, server.ConstraintName
	}
	for _, t := range c.d.trace.conflict {
		t.TraceConflict(ctx, data)
	}
}

func (c *call) traceRetried(ctx context.Context, attempt int, delay time.Duration, err error, unknown bool) {
	if len(c.d.trace.retried) == 0 {
		return
	}
	data := RetriedData{CallData: callData(c.Identity), Attempt: attempt, Err: err, Unknown: unknown, Delay: delay}
	for _, t := range c.d.trace.retried {
		t.TraceRetried(ctx, data)
	}
}
