package oteldedup_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/oteldedup"
)

const (
	remoteTrace = "0af7651916cd43dd8448eb211c80319c"
	remoteSpan  = "b7ad6b7169203331"
	traceparent = "00-" + remoteTrace + "-" + remoteSpan + "-01"
)

// TestExtractMeta puts a call into the trace of its request's _meta, with a link to the span around
// it. A call inside it has no link.
func TestExtractMeta(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	ctx, server := o.traces.Tracer("test").Start(t.Context(), "POST /mcp")
	ctx = oteldedup.ExtractMeta(ctx, map[string]any{
		"traceparent": traceparent, "tracestate": "vendor=1", "baggage": "customer=acme", "progressToken": 7,
	})
	require.Equal(t, "acme", baggage.FromContext(ctx).Member("customer").Value())

	_, err := dedup.Do(ctx, o.d, callOf("k"), note("hello"))
	require.NoError(t, err)
	span := o.span(t, "execute_tool add_note")
	require.Equal(t, remoteTrace, span.SpanContext().TraceID().String())
	require.Equal(t, remoteSpan, span.Parent().SpanID().String())
	require.Equal(t, "vendor=1", span.SpanContext().TraceState().String())
	require.Len(t, span.Links(), 1)
	require.Equal(t, server.SpanContext(), span.Links()[0].SpanContext)

	below, _ := o.traces.Tracer("test").Start(ctx, "below")
	_, err = dedup.Do(below, o.d, callOf("k2"), note("hello"))
	require.NoError(t, err)
	require.Empty(t, o.span(t, "execute_tool add_note").Links())
}

// TestExtractMetaOfNothing gives invalid traceparents. The context's span stays the parent.
func TestExtractMetaOfNothing(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	ctx, server := o.traces.Tracer("test").Start(t.Context(), "POST /mcp")
	for _, meta := range []map[string]any{nil, {}, {"traceparent": 1}, {"traceparent": "00-0-0-00"}, {"io.example/traceparent": traceparent}} {
		got := oteldedup.ExtractMeta(ctx, meta)
		require.Equal(t, server.SpanContext(), trace.SpanContextFromContext(got))
	}
	_, err := dedup.Do(oteldedup.ExtractMeta(ctx, map[string]any{"baggage": "a=b"}), o.d, callOf("k"), note("hello"))
	require.NoError(t, err)
	require.Empty(t, o.span(t, "execute_tool add_note").Links())
}
