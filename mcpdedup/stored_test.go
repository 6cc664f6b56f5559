package mcpdedup

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

func TestStoredResult(t *testing.T) {
	t.Parallel()
	given := &mcp.CallToolResult{
		Meta:              mcp.Meta{"n": json.Number("9007199254740993"), door.MetaDuplicate: "a handler's own"},
		Content:           []mcp.Content{&mcp.TextContent{Text: "<a>"}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}},
		StructuredContent: json.RawMessage(`{"n":9007199254740993}`),
	}
	text, err := record(given, nil)
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	res, err := replay(text, recordMeta("k", true, at))
	require.NoError(t, err)
	require.Equal(t, given.Content, res.Content)
	require.Equal(t, given.StructuredContent, res.StructuredContent)
	require.Equal(t, mcp.Meta{"n": json.Number("9007199254740993"), MetaKey: "k", door.MetaDuplicate: true, door.MetaCreatedAt: "2026-01-02T03:04:05Z"}, res.Meta)

	bare, err := record(&mcp.CallToolResult{}, nil)
	require.NoError(t, err)
	res, err = replay(bare, recordMeta("k", false, at))
	require.NoError(t, err)
	require.Equal(t, false, res.Meta[door.MetaDuplicate])

	for _, broken := range []string{``, `{`, `{"content":7}`, `{"_meta":[]}`} {
		_, err = replay(json.RawMessage(broken), nil)
		require.ErrorIs(t, err, dedup.ErrInvalid, broken)
	}
}

func TestUnrecordedResults(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	failed := &mcp.CallToolResult{}
	failed.SetError(cause)
	asking := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}
	shedding := &mcp.CallToolResult{} // an upstream server reports that it is busy
	require.NoError(t, json.Unmarshal([]byte(`{"content":[],"resultType":"input_required"}`), shedding))
	var own *unrecorded

	_, err := record(failed, nil)
	require.ErrorAs(t, err, &own)
	require.Same(t, failed, own.result)
	require.ErrorIs(t, err, cause)
	_, err = record(asking, nil)
	require.ErrorAs(t, err, &own)
	require.Same(t, asking, own.result)
	_, err = record(shedding, nil)
	require.ErrorAs(t, err, &own)
	require.Same(t, shedding, own.result)
	_, err = record(nil, cause)
	require.ErrorAs(t, err, &own)
	require.Equal(t, cause, own.err)

	for _, unusable := range []mcp.Result{nil, (*mcp.CallToolResult)(nil), &mcp.ListToolsResult{}, &mcp.CallToolResult{StructuredContent: func() {}}} {
		_, err = record(unusable, nil)
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
}
