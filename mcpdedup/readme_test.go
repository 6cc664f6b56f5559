package mcpdedup_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme: the README's code is the example's, which runs, and is short.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, _ := strings.Cut(after, "```")
	require.Contains(t, string(example), code)
	require.Less(t, strings.Count(code, "\n"), 25)
}
