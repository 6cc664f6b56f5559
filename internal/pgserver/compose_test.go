package pgserver

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The server of docker-compose.yml is the one that Start runs in a container.
func TestComposeFileAgrees(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	want, err := json.Marshal(map[string]any{"services": map[string]any{"postgres": map[string]any{
		"image":       Image,
		"command":     containerCommand((&Options{}).settings()),
		"environment": map[string]string{"POSTGRES_PASSWORD": "postgres", "POSTGRES_INITDB_ARGS": initdbArgs},
		"ports":       []string{"127.0.0.1:5432:5432"},
		"healthcheck": map[string]any{
			"test":     []string{"CMD", "pg_isready", "--host=127.0.0.1", "--username=postgres", "--quiet"},
			"interval": "1s", "timeout": "3s", "retries": 60,
		},
	}}})
	require.NoError(t, err)
	require.YAMLEq(t, string(want), string(text)) // JSON is YAML
	require.Contains(t, string(text), "DEDUP_DATABASE_URL=postgres://postgres:postgres@127.0.0.1:5432/postgres")
}
