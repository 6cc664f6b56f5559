package mcpdedup

import (
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
	var all []*exposed
	var problems []tool.Problem
	external := false
	for _, info := range tools.Tools() {
		e := &exposed{tools: tools, offered: offer(info, &checked)}
		problems = append(problems, e.build()...)
		all = append(all, e)
		external = external || info.External
	}
	if taken, _ := tools.Lookup(getOperation); taken.Name == getOperation && external {
		problems = append(problems, tool.Problem{Tool: getOperation, Field: "Name", Reason: "is that of the tool that is added beside external ones; rename it"})
	}
	if len(problems) > 0 {
		return &tool.RegistrationError{Problems: problems}
	}
	for _, e := range all {
		server.AddTool(e.tool, e.call)
	}
	if external {
		look := &operations{tools: tools, offered: offer(tool.Info{Name: getOperation, Class: tool.ReadOnly}, &checked)}
		server.AddTool(look.tool(), look.call)
	}
	return nil
}
