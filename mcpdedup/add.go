package mcpdedup

import (
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/tool"
)

// AddTools exposes all tools of a registry through a server, or none of them. Where there is a
// [tool.ExternalTool] among them, it adds the tool get_operation as well, which looks up its calls: a server takes
// external tools of one registry. The error is an *[dedup.InvalidError], or a *[ToolsError] that lists everything because
// of which a tool cannot be exposed. Call it at start-up.
func AddTools(server *mcp.Server, tools *tool.Registry, opts *Options) error {
	checked, err := opts.checked()
	if err != nil {
		return err
	}
	exposed, err := exposeAll(tools, &checked)
	if err != nil {
		return err
	}
	for _, e := range exposed {
		server.AddTool(e.tool, e.call)
	}
	if hasExternal(exposed) {
		look := &operations{tools: tools, opts: &checked}
		server.AddTool(look.tool(), look.call)
	}
	return nil
}

func hasExternal(all []*exposed) bool {
	return slices.ContainsFunc(all, func(e *exposed) bool { return e.info.External })
}

// ToolsError lists everything because of which tools cannot be exposed. Returned
// by AddTools and Middleware.
type ToolsError struct {
	Problems []tool.Problem
}

// Error implements error, a line for each problem.
func (e *ToolsError) Error() string {
	var b strings.Builder
	b.WriteString("mcpdedup: not exposed:")
	for _, p := range e.Problems {
		b.WriteString("\n\t")
		b.WriteString(p.String())
	}
	return b.String()
}
