package grpcdedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/tool"
)

// Options configure an [Interceptor]. Scope is required, and so is a method.
type Options struct {
	// Methods are the paths of the methods to intercept, as the generated constants
	// …_FullMethodName have them. New refuses a method that streams and one that no generated code
	// of the program defines. A method whose option idempotency_level is NO_SIDE_EFFECTS is passed
	// on.
	Methods []string

	// Scope names on whose behalf a request comes: the tenant, client or account, taken from what
	// an interceptor before this one has authenticated. One scope never sees another's answers.
	// An error that has a status is passed on. Any other error, and an empty scope, is
	// UNAUTHENTICATED. Required.
	Scope func(ctx context.Context) (string, error)

	// Tools has the tools of ToolOf. It must be made with the same Deduper. Default: none.
	Tools *tool.Registry

	// ToolOf maps the path of a method to the name of the tool that answers instead of its handler.
	// The request's JSON form, by protobuf's mapping and with 64-bit numbers as numbers, is the
	// tool's arguments, and the tool's result is read as the JSON form of the response. Only the
	// arguments are compared. So a call is the same one over gRPC, over MCP and in an agent's loop.
	// If a field's tag in the tool's type is another name, make that the protobuf field's
	// json_name. A tool whose arguments are the key needs no other.
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

	// OnError gets each error that the client does not see: the reason for INTERNAL or BLOCKED, a
	// final error with the database's text, and an error of Scope without a status.
	// [tool.InvocationOf] of ctx has the call. err may quote the database's message, which can have
	// values in it. Default: a line at level Error to slog.Default, with the SQLSTATE instead of
	// the database's message.
	OnError func(ctx context.Context, method string, err error)
}

// Interceptor intercepts the methods of a server. It is safe for concurrent use.
type Interceptor struct{ door *rpc.Door }

// New returns an Interceptor that records responses with d. It sends nothing. The error is a
// *dedup.InvalidError, whose Field is the option, or "d".
func New(d *dedup.Deduper, opts Options) (*Interceptor, error) {
	door, err := rpc.New(d, rpc.Options(opts), "metadata")
	if err != nil {
		return nil, fmt.Errorf("grpcdedup: %w", err)
	}
	return &Interceptor{door}, nil
}

// Unary is a [grpc.UnaryServerInterceptor]. Put it behind the interceptors that authenticate, log
// and recover from panics, because a handler may run more than once for one request, with all runs
// but one rolled back. A panic of a handler is raised again after the rollback.
func (i *Interceptor) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if !i.door.Intercepts(info.FullMethod) {
		return handler(ctx, request)
	}
	message, _ := request.(proto.Message)
	var run *stream
	reply := i.door.Serve(ctx, rpc.Request{
		Method: info.FullMethod, Message: message, Keys: metadata.ValueFromIncomingContext(ctx, rpc.KeyName),
		StatusOf: statusOf,
		Handle: func(ctx context.Context) (any, error) {
			run = &stream{method: info.FullMethod}
			return handler(grpc.NewContextWithServerTransportStream(ctx, run), request)
		},
	})
	if reply.Own && run != nil {
		run.sendTo(ctx)
	}
	if reply.Duplicate {
		_ = grpc.SetHeader(ctx, metadata.Pairs(rpc.ReplayedName, "true")) // fails only outside a server
	}
	if wait := rpc.RetryAfter(reply.Status); wait > 0 { // the client's retry policy waits as long
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(wait.Milliseconds(), 10)))
	}
	switch {
	case reply.Err != nil:
		return nil, reply.Err
	case reply.Status != nil:
		return nil, status.FromProto(reply.Status).Err()
	}
	return reply.Message, nil
}

// statusOf returns the status that err has, without the words around it.
func statusOf(err error) *spb.Status {
	var with interface {
		error
		GRPCStatus() *status.Status
	}
	if !errors.As(err, &with) || with.GRPCStatus() == nil {
		return nil
	}
	return with.GRPCStatus().Proto()
}

// Tx returns the transaction of the request that a handler's context belongs to. What the handler
// writes through it is committed together with the response, or not at all. Returning ends it:
// Commit and Rollback are refused. ok is false outside the handler of an intercepted method.
func Tx(ctx context.Context) (tx pgx.Tx, ok bool) { return rpc.Tx(ctx) }
