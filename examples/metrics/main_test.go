package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A call and its retry belong to the client's trace, with the effect's statements below them, and
// are counted.
func TestMetrics(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	pool, err := connect(t.Context(), pgtest.New(t).URL, traces)
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE TABLE notes (id bigint GENERATED ALWAYS AS IDENTITY, text text)`)
	require.NoError(t, err)
	handler, closeMetrics, err := newHandler(pool, traces)
	require.NoError(t, err)
	defer closeMetrics()
	service := httptest.NewServer(handler)
	defer service.Close()

	client, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: service.URL + "/mcp", HTTPClient: service.Client()}, nil)
	require.NoError(t, err)
	for range 2 {
		res, err := client.CallTool(t.Context(), &mcp.CallToolParams{
			Meta: mcp.Meta{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			Name: "add_note", Arguments: map[string]any{"text": "call the guest back", "idempotencyKey": "6f1c"},
		})
		require.NoError(t, err)
		require.False(t, res.IsError)
	}
	require.NoError(t, client.Close())

	var calls []sdktrace.ReadOnlySpan
	inserts := map[trace.SpanID]int{} // by parent
	for _, span := range spans.Ended() {
		if span.Name() == "execute_tool add_note" {
			calls = append(calls, span)
		}
		if strings.Contains(fmt.Sprint(span.Attributes()), "INSERT INTO notes") {
			inserts[span.Parent().SpanID()]++
		}
	}
	require.Len(t, calls, 2)
	for _, call := range calls {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", call.SpanContext().TraceID().String())
		require.Equal(t, "b7ad6b7169203331", call.Parent().SpanID().String())
	}
	require.Equal(t, 1, inserts[calls[0].SpanContext().SpanID()])
	require.Zero(t, inserts[calls[1].SpanContext().SpanID()])

	page, err := service.Client().Do(get(t, service.URL+"/metrics"))
	require.NoError(t, err)
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	for _, outcome := range []string{"executed", "replayed"} {
		require.Regexp(t, `(?m)^dedup_calls_total\{dedup_outcome="`+outcome+`",gen_ai_tool_name="add_note",.*\} 1$`, string(text))
	}
	require.Contains(t, string(text), "\npgxpool_max_connections{")
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return request
}
