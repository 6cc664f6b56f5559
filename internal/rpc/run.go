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
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/tool"
)

// Request is a request of a unary method, as a door has received it.
type Request struct {
	// Method is the path, such as "/shop.v1.Orders/Create".
	Method  string
	Message proto.Message
	// Keys are the values of the metadata KeyName.
	Keys []string
	// Handle runs the handler on Message.
	Handle func(ctx context.Context) (proto.Message, error)
	// StatusOf returns the status that an error of the door's library has, nil if it is another one.
	StatusOf func(err error) *status.Status
}

// Reply is what a request is answered with: Message, or Status, or Err.
type Reply struct {
	Message proto.Message
	// Status is the door's own, or that of a recorded refusal.
	Status *status.Status
	// Err is an error of the handler, which is passed on as it is.
	Err error
	// Duplicate reports that the answer is an earlier request's.
	Duplicate bool
}

// Guards reports whether the door guards a method.
func (g *Door) Guards(path string) bool { return g.methods[path] != nil }

type txKey struct{}

// Tx returns the transaction that a handler's context has.
func Tx(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	return tx, ok
}

// Serve answers a request of a method that the door guards.
func (g *Door) Serve(ctx context.Context, r Request) Reply {
	m := g.methods[r.Method]
	inv := tool.Invocation{Tool: m.name, MaxWait: g.opts.MaxWait}
	var err error
	if inv.Scope, err = door.Scope(g.opts.Scope(ctx)); err != nil {
		return Reply{Status: g.noScope(ctx, m, r, err)}
	}
	if m.tool != nil {
		return g.serveTool(ctx, m, r, inv)
	}
	if inv.Key, err = m.key(r.Message.ProtoReflect(), r.Keys); err == nil {
		inv.Args, err = m.args(r.Message)
	}
	if err != nil {
		return Reply{Status: g.status(ctx, m, inv, err)}
	}
	call := dedup.Call{Scope: inv.Scope, Tool: m.name, Key: inv.Key, Args: inv.Args, Retention: g.opts.Retention, MaxWait: inv.MaxWait}
	j := &job{g: g, r: r, inv: inv}
	result, err := dedup.Do(ctx, g.d, call, j.effect)
	if j.left != nil && errors.Is(err, guard.ErrTxAborted) && !dedup.IsRetryable(err) { // the handler has told of the failed statement
		err = j.left
	}
	var failed *failure
	var refused *dedup.RefusedError
	switch {
	case err == nil && !result.Replayed:
		return Reply{Message: j.answer}
	case err == nil:
		answer, err := m.decodeMessage(result.Value)
		if err != nil {
			return Reply{Status: g.status(ctx, m, inv, err)}
		}
		return Reply{Message: answer, Duplicate: !result.Recovered}
	case errors.As(err, &failed) && error(failed) == err: // nothing around it: nothing is known beside it
		return Reply{Err: failed.err}
	case errors.As(err, &refused):
		if s, ok := decodeStatus(refused.Details); ok {
			return Reply{Status: s, Duplicate: door.IsDuplicate(refused.Replayed, refused.Recovered)}
		}
	}
	return Reply{Status: g.status(ctx, m, inv, err)}
}

// job is the run of a handler, once or again.
type job struct {
	g   *Door
	r   Request
	inv tool.Invocation
	// original is the request as it came, kept because a handler may change its message.
	original proto.Message
	answer   proto.Message
	// left is the handler's error if its transaction was aborted, and dedup was left to find that.
	left error
}

// failure is an error of a handler that is not recorded.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// effect runs the handler in the call's transaction and returns what to record.
func (j *job) effect(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	if j.original == nil {
		j.original = proto.Clone(j.r.Message)
	} else {
		proto.Reset(j.r.Message)
		proto.Merge(j.r.Message, j.original)
	}
	j.left = nil
	ctx = context.WithValue(context.WithValue(ctx, door.InvocationKey{}, j.inv), txKey{}, tx)
	answer, err := j.r.Handle(ctx)
	if err == nil {
		j.answer = answer
		return encodeMessage(answer)
	}
	if pg := tx.Conn().PgConn(); pg.IsClosed() || pg.TxStatus() == 'E' {
		// The error most likely says no more than that a statement has failed. dedup has seen that
		// statement's error, and runs the handler again after a deadlock or the like. The value is
		// not recorded: nothing can be in such a transaction.
		j.left = &failure{err}
		return json.RawMessage("null"), nil
	}
	if refused := new(dedup.RefusedError); errors.As(j.g.d.Refusal(err), &refused) {
		s := j.r.StatusOf(err)
		if s == nil {
			s = &status.Status{Code: int32(code.Code_FAILED_PRECONDITION), Message: refused.Message}
		}
		return nil, dedup.Final(&refusal{s, err})
	}
	return nil, &failure{err}
}
