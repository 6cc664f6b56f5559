package oteldedup

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// ExtractMeta returns a context with the trace of a request of MCP. Its traceparent, tracestate and
// baggage are in params._meta, as MCP's SEP-414 defines. Calls are children of the span there. They
// have a link to the span that ctx has, such as the span of the HTTP request. Without a valid
// traceparent that span stays the parent.
//
// A client may send any traceparent. For untrusted clients give the TracerProvider a sampler that
// ignores the decision of a remote parent.
//
// As a middleware for the server of the MCP SDK, ahead of that of mcpdedup:
//
//	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
//		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
//			if params := req.GetParams(); params != nil {
//				ctx = oteldedup.ExtractMeta(ctx, params.GetMeta())
//			}
//			return next(ctx, method, req)
//		}
//	}, middleware)
func ExtractMeta(ctx context.Context, meta map[string]any) context.Context {
	carrier := make(propagation.MapCarrier, 3)
	for _, name := range w3c.Fields() {
		if text, ok := meta[name].(string); ok {
			carrier[name] = text
		}
	}
	if len(carrier) == 0 {
		return ctx
	}
	was := trace.SpanContextFromContext(ctx)
	ctx = w3c.Extract(ctx, carrier)
	is := trace.SpanContextFromContext(ctx)
	if !was.IsValid() || is.Equal(was) {
		return ctx
	}
	return context.WithValue(ctx, ambientKey{}, ambient{span: was, parent: is.SpanID()})
}

// w3c is the propagator that MCP prescribes. The program's own propagator does not matter.
var w3c = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

type ambientKey struct{}

// ambient is the context's span before ExtractMeta set the parent.
type ambient struct {
	span   trace.SpanContext
	parent trace.SpanID
}

// ambientLink returns a link to the ambient span for a child of the parent. Spans below have none.
func ambientLink(ctx context.Context) (trace.Link, bool) {
	of, ok := ctx.Value(ambientKey{}).(ambient)
	if !ok || trace.SpanContextFromContext(ctx).SpanID() != of.parent {
		return trace.Link{}, false
	}
	return trace.Link{SpanContext: of.span}, true
}
