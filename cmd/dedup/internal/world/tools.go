package world

import (
	"slices"

	"github.com/tooldedup/dedup/cmd/dedup/internal/airline"
	"github.com/tooldedup/dedup/cmd/dedup/internal/retail"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/desk"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// Tools returns every tool of both domains: 13 that write, the reads, and
// three in each domain that touch nothing.
func Tools() map[tool.Name]tool.Tool {
	all := slices.Concat(
		airline.Tools(), desk.Tools(airline.Domain),
		retail.Tools(), desk.Tools(retail.Domain),
	)
	byName := make(map[tool.Name]tool.Tool, len(all))
	for _, t := range all {
		byName[t.Name] = t
	}
	return byName
}
