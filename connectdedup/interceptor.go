package connectdedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/tool"
)

// Options configure an [Interceptor]. Scope is required, and so is a method.
type Options struct {
	// Methods are the paths of the methods to intercept, as the generated constants …Procedure
	// have them. New refuses a method that streams and one that no generated code of the program
	// defines. A method whose option idempotency_level is NO_SIDE_EFFECTS is passed on.
	Methods []string

	// Scope names on whose behalf a request comes: the tenant, client or account, taken from what
	// an interceptor or middleware before this one has authenticated. One scope never sees
	// another's answers. An error that has a *connect.Error in its chain is passed on. Any other
	// error, and an empty scope, is unauthenticated. Required.
	Scope func(ctx context.Context) (string, error)

	// Tools has the tools of ToolOf. It must be made with the same Deduper. Default: none.
	Tools *tool.Registry

	// ToolOf maps the path of a method to the name of the tool that answers instead of its handler.
	// The request's JSON form, by protobuf's mapping and with 64-bit numbers as numbers, is the
	// tool's arguments, and the tool's result is read as the JSON form of the response. Only the
	// arguments are compared. So a call is the same one over Connect, over MCP and in an agent's
	// loop. If a field's tag in the tool's type is another name, make that its json_name. A tool
	// whose arguments are the key needs no other.
	ToolOf map[string]string

	// Retention is how long responses are replayed. Default: the Deduper's. A tool of ToolOf has
	// its own.
	Retention dedup.Retention

	// RetentionOf has the Retention of single methods of Methods, by their paths. Its fields that
	// are zero are those of Retention. A negative Result keeps no response: for a method that mints
	// a secret.
	RetentionOf map[string]dedup.Retention

	// MaxWait bounds how long a request waits for an equal one that is running, or a call of a
	// [tool.ExternalTool] for its operation. Negative means 5 ms, and for an operation no wait. A
	// request whose context ends stops waiting. Default: 10 seconds.
	MaxWait time.Duration

	// RetryAfter is the delay of a RetryInfo. Default: 1 second, at most 1 hour.
	RetryAfter time.Duration

	// OnError gets each error that the client does not see: the reason for internal or BLOCKED, a
	// final error with the database's text, and an error of Scope that is not a *connect.Error.
	// [tool.InvocationOf] of ctx has the call. err may quote the database's message, which can have
	// values in it. Default: a line at level Error to slog.Default, with the SQLSTATE instead of
	// the database's message.
	OnError func(ctx context.Context, method string, err error)
}

// Interceptor is a [connect.Interceptor] for the methods of a server. It is safe for concurrent
// use. Put it behind the interceptors that authenticate and log, because a handler may run more
// than once for one request, with all runs but one rolled back. A panic of a handler is raised
// again after the rollback. A replay is a [connect.AnyResponse] but no *connect.Response[T]:
// interceptors before this one use its methods.
type Interceptor struct{ door *rpc.Door }

// New returns an Interceptor that records responses with d. It sends nothing. The error is a
// *dedup.InvalidError, whose Field is the option, or "d".
func New(d *dedup.Deduper, opts Options) (*Interceptor, error) {
	door, err := rpc.New(d, rpc.Options(opts), "header")
	if err != nil {
		return nil, fmt.Errorf("connectdedup: %w", err)
	}
	return &Interceptor{door}, nil
}

// WrapUnary implements [connect.Interceptor].
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if request.Spec().IsClient || !i.door.Intercepts(request.Spec().Procedure) {
			return next(ctx, request)
		}
		message, _ := request.Any().(proto.Message)
		var first connect.AnyResponse // of the last run
		var failed error
		var reply rpc.Reply
		undo := headers(ctx, request)
		defer func() {
			if !reply.Own { // after a panic too
				undo()
			}
		}()
		reply = i.door.Serve(ctx, rpc.Request{
			Method: request.Spec().Procedure, Message: message, Keys: request.Header().Values(rpc.KeyName),
			StatusOf: statusOf,
			Handle: func(ctx context.Context) (any, error) {
				undo()
				if first, failed = next(ctx, request); failed != nil {
					return nil, failed
				}
				return first.Any(), nil
			},
		})
		switch {
		case reply.Err != nil:
			return nil, reply.Err
		case reply.Status != nil:
			err := errorOf(reply.Status)
			if refused, ok := errors.AsType[*connect.Error](failed); ok && reply.Own {
				maps.Copy(err.Meta(), refused.Meta())
			}
			if wait := rpc.RetryAfter(reply.Status); wait > 0 {
				err.Meta().Set("Retry-After", strconv.Itoa(door.Seconds(wait)))
			}
			if reply.Duplicate {
				err.Meta().Set(rpc.ReplayedName, "true")
			}
			return nil, err
		case reply.Own && failed == nil && proto.Equal(first.Any().(proto.Message), reply.Message):
			return first, nil
		}
		replay := response{connect.NewResponse(&emptypb.Empty{}), reply.Message}
		if reply.Duplicate {
			replay.Header().Set(rpc.ReplayedName, "true")
		}
		return replay, nil
	}
}

// headers returns a function that gives a request its headers as they came, and removes what runs
// of a handler have set through [connect.CallInfoForHandlerContext]. A run that is rolled back may
// not leave its own behind.
func headers(ctx context.Context, request connect.AnyRequest) (undo func()) {
	kept := []http.Header{request.Header()}
	if info, ok := connect.CallInfoForHandlerContext(ctx); ok {
		kept = append(kept, info.ResponseHeader(), info.ResponseTrailer())
	}
	var copies []http.Header
	for _, header := range kept {
		copies = append(copies, header.Clone())
	}
	return func() {
		for i, header := range kept {
			clear(header)
			maps.Copy(header, copies[i].Clone())
		}
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor]. New has refused methods that stream.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// response is a response of a type that is known only by its descriptor.
type response struct {
	connect.AnyResponse
	message proto.Message
}

func (r response) Any() any { return r.message }

// statusOf returns the status of a *connect.Error in err, or nil.
func statusOf(err error) *spb.Status {
	var with *connect.Error
	if !errors.As(err, &with) {
		return nil
	}
	s := &spb.Status{Code: int32(with.Code()), Message: with.Message()}
	for _, detail := range with.Details() {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	return s
}

// errorOf is the reverse of statusOf.
func errorOf(s *spb.Status) *connect.Error {
	err := connect.NewError(connect.Code(s.GetCode()), errors.New(s.GetMessage()))
	for _, packed := range s.GetDetails() {
		if detail, problem := connect.NewErrorDetail(packed); problem == nil { // an Any is taken as it is
			err.AddDetail(detail)
		}
	}
	return err
}

// Tx returns the transaction of the request that a handler's context belongs to. What the handler
// writes through it is committed together with the response, or not at all. Returning ends it:
// Commit and Rollback are refused. ok is false outside the handler of an intercepted method.
func Tx(ctx context.Context) (tx pgx.Tx, ok bool) { return rpc.Tx(ctx) }
