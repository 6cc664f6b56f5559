package mcpdedup

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// requestOfRun returns a copy of a request with other arguments. A handler may change what it gets,
// and a later run must not see that.
func requestOfRun(req *mcp.CallToolRequest, args json.RawMessage) *mcp.CallToolRequest {
	params := *req.Params
	params.Arguments, params.InputResponses = slices.Clone(args), maps.Clone(params.InputResponses)
	if params.Meta != nil {
		params.Meta = cloneJSON(map[string]any(params.Meta)).(map[string]any)
	}
	extra := req.Extra
	if extra != nil {
		clone := *extra
		clone.Header = clone.Header.Clone()
		extra = &clone
	}
	return &mcp.CallToolRequest{Session: req.Session, Params: &params, Extra: extra}
}

// cloneJSON returns a copy of a decoded JSON value.
func cloneJSON(value any) any {
	switch value := value.(type) {
	case map[string]any:
		clone := make(map[string]any, len(value))
		for name, member := range value {
			clone[name] = cloneJSON(member)
		}
		return clone
	case []any:
		clone := make([]any, len(value))
		for i, element := range value {
			clone[i] = cloneJSON(element)
		}
		return clone
	}
	return value
}
