package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// Request is a request of a unary method, as a door has received it.
type Request struct {
	// Method is the path, such as "/shop.v1.Orders/Create".
	Method string
	// Message is nil if the request is no protobuf message. It is not served then, because nothing
	// could compare it.
	Message proto.Message
	// Keys are the values of the metadata KeyName.
	Keys []string
	// Handle runs the handler on Message and returns its response.
	Handle func(ctx context.Context) (any, error)
	// StatusOf returns the status that an error of the door's library has, nil if it is another
	// one.
	StatusOf func(err error) *status.Status
}

// Reply is the answer to a request: Message, or Status, or Err.
type Reply struct {
	Message proto.Message
	// Status is the door's own, or a recorded refusal's.
	Status *status.Status
	// Err is an error of the handler, which is passed on as it is.
	Err error
	// Duplicate reports that the answer is an earlier request's.
	Duplicate bool
	// Own reports that the answer is that of this request's last run, which was committed, so that
	// its headers go with it.
	Own bool
}

// Intercepts reports whether the door intercepts a method.
func (d *Door) Intercepts(path string) bool { return d.methods[path] != nil }

type txKey struct{}

// Tx returns the transaction that a handler's context has.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	return tx, ok
}

// Serve answers a request of a method that the door intercepts.
func (d *Door) Serve(ctx context.Context, r Request) Reply {
	m := d.methods[r.Method]
	inv := tool.Invocation{Tool: m.name, MaxWait: d.opts.MaxWait}
	var err error
	if inv.Scope, err = door.Scope(d.opts.Scope(ctx)); err != nil {
		return Reply{Status: d.noScope(ctx, m, r, err)}
	}
	if r.Message == nil {
		return Reply{Status: d.status(ctx, m, inv, errNoMessage)}
	}
	if m.tool != nil {
		return d.serveTool(ctx, m, r, inv)
	}
	if inv.Key, err = m.key(r.Message.ProtoReflect(), r.Keys, d.keyPlace); err == nil {
		inv.Args, err = m.args(r.Message)
	}
	if err != nil {
		return Reply{Status: d.status(ctx, m, inv, err)}
	}
	call := dedup.Call{Scope: inv.Scope, Tool: m.name, Key: inv.Key, Args: inv.Args, Retention: m.retention, MaxWait: inv.MaxWait}
	j := &job{door: d, r: r, inv: inv, original: proto.Clone(r.Message)}
	result, err := door.DoHandler(ctx, d.d, call, j.effect)
	if err == nil && !result.Replayed {
		return Reply{Message: j.answer, Own: true}
	}
	if err == nil {
		var answer proto.Message
		if answer, err = m.decodeMessage(result.Value); err == nil {
			return Reply{Message: answer, Duplicate: !result.Recovered, Own: j.isLast(true, result.Recovered)}
		}
	}
	if failed, ok := door.HandlersError[*failure](err); ok && ctx.Err() == nil {
		return Reply{Err: failed.err}
	}
	if refused := new(dedup.RefusedError); errors.As(err, &refused) {
		if s, ok := decodeStatus(refused.Details); ok {
			duplicate := door.IsDuplicate(refused.Replayed, refused.Recovered)
			return Reply{Status: s, Duplicate: duplicate, Own: j.isLast(refused.Replayed, refused.Recovered)}
		}
	}
	return Reply{Status: d.status(ctx, m, inv, err)}
}

// errNoMessage is for Options.OnError. A server with another codec than protobuf's may have it.
var errNoMessage = &dedup.InvalidError{What: "call", Field: "Message", Reason: "is no protobuf message, and cannot be compared with those of other requests; leave the method out, or use generated types"}

// job runs the handler of a request, once or again.
type job struct {
	door *Door
	r    Request
	inv  tool.Invocation
	// original is the request as it came. A handler may change its message.
	original proto.Message
	// answer is the latest run's.
	answer proto.Message
	runs   int
}

// isLast reports whether an answer is the latest run's. A recovered answer may be that of an
// earlier run, whose COMMIT lost its reply: under REPEATABLE READ another run follows, and is
// rolled back.
func (j *job) isLast(replayed, recovered bool) bool { return !replayed || recovered && j.runs == 1 }

// failure is an error of a handler that is not recorded.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// effect runs the handler in the call's transaction and returns the text to record. dedup may run
// it again after a fault; the earlier run is rolled back.
func (j *job) effect(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	if j.runs++; j.runs > 1 { // not before: other layers hold parts of the message
		proto.Reset(j.r.Message)
		proto.Merge(j.r.Message, j.original)
	}
	ctx = context.WithValue(context.WithValue(ctx, door.InvocationKey{}, j.inv), txKey{}, tx)
	response, err := j.r.Handle(ctx)
	if err == nil {
		message, ok := response.(proto.Message)
		if !ok {
			return nil, &dedup.InvalidError{What: "result", Reason: "is not a protobuf message"}
		}
		j.answer = message
		return encodeMessage(message)
	}
	if refused := new(dedup.RefusedError); errors.As(j.door.d.Refusal(err), &refused) {
		return nil, dedup.Final(j.refusal(ctx, err, refused))
	}
	return nil, &failure{err}
}

// refusal returns the handler's final error with the status that it has or gets. A text of the
// database is recorded, and OnError gets it. The client does not see it.
func (j *job) refusal(ctx context.Context, err error, refused *dedup.RefusedError) *refusal {
	if s := j.r.StatusOf(err); s != nil {
		return &refusal{s, s.GetMessage(), err}
	}
	shown, hidden := door.Disclose(refused)
	if hidden {
		j.door.opts.OnError(ctx, j.inv.Tool, err)
	}
	return &refusal{&status.Status{Code: int32(code.Code_FAILED_PRECONDITION), Message: shown.Message}, refused.Message, err}
}
