package world_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	deduper, err := dedup.New(setup(t), nil)
	require.NoError(t, err)

	classes := map[tool.Class]int{}
	for domain := range world.Tools() {
		registry, err := world.Registry(deduper, domain)
		require.NoError(t, err)
		for _, info := range registry.Tools() {
			classes[info.Class]++
		}
	}
	require.Equal(t, map[tool.Class]int{tool.Write: 9, tool.Destructive: 4, tool.ReadOnly: 17}, classes)
}

// TestToolsAreTheRecordings requires that every tool that the large recording's
// list names is there, those included that no recorded session calls.
func TestToolsAreTheRecordings(t *testing.T) {
	t.Parallel()
	rec, err := recording.Open(largeDir(t))
	require.NoError(t, err)
	require.NotEmpty(t, rec.Tools)
	tools := world.Tools()
	for _, spec := range rec.Tools {
		require.True(t, slices.ContainsFunc(tools[spec.Domain], func(t kit.Tool) bool {
			return t.Name == spec.Tool && t.Class.NeedsKey() == (spec.Class == recording.Write)
		}), "%s of %s", spec.Tool, spec.Domain)
	}
}

// TestClassesAreTheRecordings requires that a tool that writes in the recording
// needs a key, and that no other does.
func TestClassesAreTheRecordings(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	tools := world.Tools()
	for _, session := range rec.Sessions {
		for _, call := range session.Calls {
			class := find(tools[call.Domain], call.Tool).Class
			require.Equal(t, call.Class == recording.Write, class.NeedsKey(), call.Tool)
		}
	}
}
