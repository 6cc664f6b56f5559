package world

import (
	"fmt"
	"slices"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/airline"
	"github.com/tooldedup/dedup/proof/internal/retail"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Tools returns the tools of each domain, some names of which are the same: 13
// that write, the reads, and three in each domain that touch nothing.
func Tools() map[string][]kit.Tool {
	return map[string][]kit.Tool{
		airline.Domain: slices.Concat(airline.Tools(), deskTools),
		retail.Domain:  slices.Concat(retail.Tools(), deskTools),
	}
}

// Registry returns a registry of the tools of a domain that run with d.
func Registry(d *dedup.Deduper, domain string) (*tool.Registry, error) {
	tools := Tools()[domain]
	definitions := make([]tool.Definition, len(tools))
	for i, t := range tools {
		definitions[i] = t.Definition
	}
	registry := tool.NewRegistry(d, nil)
	if err := registry.Add(definitions...); err != nil {
		return nil, fmt.Errorf("%s tools: %w", domain, err)
	}
	return registry, nil
}
