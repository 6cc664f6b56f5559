package mcpdedup

import (
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/tool"
)

// AddTools exposes all tools of a registry through a server, or none of them. Where there is a
// [tool.ExternalTool] among them, it adds the tool get_operation as well, which looks up its calls: a server takes
// external tools of one registry. The error is an *[dedup.InvalidError], or a *[tool.RegistrationError] that lists everything because
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
