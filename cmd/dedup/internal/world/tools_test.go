package world_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world"
	"github.com/tooldedup/dedup/tool"
)

func TestRegistries(t *testing.T) {
	t.Parallel()
	deduper, err := dedup.New(setup(t), nil)
	require.NoError(t, err)
	registries, err := world.Registries(deduper)
	require.NoError(t, err)

	classes := map[tool.Class]int{}
	for _, registry := range registries {
		for _, info := range registry.Tools() {
			classes[info.Class]++
		}
	}
	require.Equal(t, map[tool.Class]int{tool.Write: 9, tool.Destructive: 4, tool.ReadOnly: 16}, classes)
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
