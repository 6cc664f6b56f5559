package mcpdedup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/internal/door"
)

// spliceList returns a list of tools with the wrapped ones changed. The list holds pointers to the
// server's own tools, so it changes copies.
func spliceList(ctx context.Context, wrapped map[string]*wrappedTool, opts *Options, result mcp.Result) (mcp.Result, error) {
	list, ok := result.(*mcp.ListToolsResult)
	if !ok {
		return nil, fmt.Errorf("mcpdedup: the list of tools is a %T", result)
	}
	spliced := *list
	spliced.Tools = []*mcp.Tool{}
	for _, t := range list.Tools {
		w := wrapped[t.Name]
		if w == nil {
			opts.report(ctx, Failure{Tool: t.Name, Code: string(door.Unclassified),
				Err: fmt.Errorf("mcpdedup: %s is none of the tools that Middleware was given, and clients do not see it; give its class, also if it only reads", door.Name(t.Name))})
			continue
		}
		shown, err := w.show(t)
		if err != nil {
			opts.report(ctx, Failure{Tool: t.Name, Code: string(door.Failed), Err: err})
			return nil, fmt.Errorf("mcpdedup: tool %s cannot be listed", t.Name)
		}
		spliced.Tools = append(spliced.Tools, shown)
	}
	return &spliced, nil
}

// show returns a tool with the hints of its class and the added argument.
func (w *wrappedTool) show(t *mcp.Tool) (*mcp.Tool, error) {
	shown := *t
	hints := annotations(w.info)
	hints.OpenWorldHint = nil // only the tool's author knows it
	if t.Annotations != nil {
		hints.Title, hints.OpenWorldHint = t.Annotations.Title, t.Annotations.OpenWorldHint
	}
	shown.Annotations = hints
	if w.keyArgument == "" {
		return &shown, nil
	}
	text, err := schemaText(t.InputSchema)
	if err != nil {
		return nil, err
	}
	shown.InputSchema, err = w.splice(text)
	var closed *closedError
	switch {
	case errors.Is(err, errArgumentTaken):
		return nil, fmt.Errorf("mcpdedup: tool %s has an argument %s itself; rename it, or name it as Policy.KeyArgument if it is the key", t.Name, w.keyArgument)
	case errors.As(err, &closed):
		return nil, fmt.Errorf("mcpdedup: the schema of tool %s may refuse arguments with %s among them, by %s; open it, name an argument of the tool's own as Policy.KeyArgument, or set Options.KeysInMeta and let clients send keys in _meta", t.Name, w.keyArgument, closed.keyword)
	case err != nil:
		return nil, err
	}
	return &shown, nil
}

// schemaText returns a schema as the SDK writes it, with <, > and & unescaped.
func schemaText(schema any) (json.RawMessage, error) {
	text, err := door.JSON(schema)
	if err != nil {
		return nil, fmt.Errorf("mcpdedup: writing a tool's schema: %w", err)
	}
	if !isObject(text) {
		return nil, errors.New("mcpdedup: a tool's schema is not a JSON object")
	}
	return text, nil
}
