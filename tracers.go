package dedup

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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
		return &OptionsError{Option: "Tracer", Reason: "implements none of the tracer interfaces; is it a value where a pointer is needed?"}
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

func (id identity) data() CallData {
	return CallData{Scope: id.scope, Tool: id.tool, Key: id.key, KeyHash: KeyHash(id.key)}
}

func (d *Deduper) traceExecuted(ctx context.Context, req *request, s settled) {
	d.traceWaited(ctx, req, s.waited, nil)
	if len(d.trace.executed) == 0 {
		return
	}
	data := ExecutedData{
		CallData: req.data(), Refused: s.rec.outcome == outcomeRefused, CreatedAt: s.rec.createdAt,
		Duration: s.took - s.waited, Waited: s.waited, Attempts: s.attempts,
	}
	for _, t := range d.trace.executed {
		t.TraceExecuted(ctx, data)
	}
}

func (d *Deduper) traceReplayed(ctx context.Context, req *request, s settled) {
	d.traceWaited(ctx, req, s.waited, nil)
	if len(d.trace.replayed) == 0 {
		return
	}
	data := ReplayedData{
		CallData: req.data(), Refused: s.rec.outcome == outcomeRefused, Recovered: s.recovered,
		FirstAt: s.rec.createdAt, Age: s.rec.age(), Waited: s.waited,
	}
	for _, t := range d.trace.replayed {
		t.TraceReplayed(ctx, data)
	}
}

// traceJudged tells of a record that answers with an error.
func (d *Deduper) traceJudged(ctx context.Context, req *request, s settled, err error) {
	var reused *KeyReusedError
	switch {
	case errors.Is(err, ErrRefused):
		d.traceReplayed(ctx, req, s)
		return
	case errors.As(err, &reused) && len(d.trace.keyReused) > 0:
		data := KeyReusedData{CallData: req.data(), FirstAt: s.rec.createdAt, Age: s.rec.age(), Changed: reused.Changed}
		for _, t := range d.trace.keyReused {
			t.TraceKeyReused(ctx, data)
		}
	case errors.Is(err, ErrExpired) && len(d.trace.expired) > 0:
		data := ExpiredData{CallData: req.data(), FirstAt: s.rec.createdAt, Age: s.rec.age()}
		for _, t := range d.trace.expired {
			t.TraceExpired(ctx, data)
		}
	}
	d.traceWaited(ctx, req, s.waited, nil)
}

// traceFailure tells of a call that came to no record.
func (d *Deduper) traceFailure(ctx context.Context, req *request, s settled, err error) {
	d.traceWaited(ctx, req, s.waited, err)
	var broken *BrokenError
	if len(d.trace.broken) > 0 && errors.As(err, &broken) {
		data := BrokenData{CallData: req.data(), Err: err}
		for _, t := range d.trace.broken {
			t.TraceBroken(ctx, data)
		}
	}
}

func (d *Deduper) traceWaitStart(ctx context.Context, req *request, inProcess bool) {
	if len(d.trace.wait) == 0 {
		return
	}
	data := WaitStartData{CallData: req.data(), InProcess: inProcess}
	for _, t := range d.trace.wait {
		t.TraceWaitStart(ctx, data)
	}
}

func (d *Deduper) traceWaited(ctx context.Context, req *request, waited time.Duration, err error) {
	if waited == 0 || len(d.trace.wait) == 0 {
		return
	}
	data := WaitedData{CallData: req.data(), Waited: waited, Err: err}
	for _, t := range d.trace.wait {
		t.TraceWaited(ctx, data)
	}
}

func (d *Deduper) traceConflict(ctx context.Context, req *request, err error, resolved bool) {
	if len(d.trace.conflict) == 0 {
		return
	}
	data := ConflictData{CallData: req.data(), Resolved: resolved}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		data.SQLState, data.Table, data.Constraint = server.Code, server.TableName, server.ConstraintName
	}
	for _, t := range d.trace.conflict {
		t.TraceConflict(ctx, data)
	}
}

func (d *Deduper) traceRetried(ctx context.Context, req *request, attempt int, delay time.Duration, err error, unknown bool) {
	if len(d.trace.retried) == 0 {
		return
	}
	data := RetriedData{CallData: req.data(), Attempt: attempt, Err: err, Unknown: unknown, Delay: delay}
	for _, t := range d.trace.retried {
		t.TraceRetried(ctx, data)
	}
}
