package mcpdedup

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tooldedup/dedup/tool"
)

// AddTools adds all tools of a registry to a server, or none. If one of them is a
// [tool.ExternalTool], it also adds the tool get_operation, which looks up calls; so a server takes
// external tools of one registry only. The error is a *[dedup.InvalidError] for opts, or a
// *[tool.RegistrationError] that lists every reason why a tool cannot be shown. Call it at
// start-up.
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
