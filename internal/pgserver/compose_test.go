package pgserver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The server of docker-compose.yml is the one that Start runs in a container.
func TestComposeFileAgrees(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Ports       []string
			Environment map[string]string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Services, 1)
	service := file.Services["postgres"]

	require.Equal(t, Image, service.Image)
	require.Equal(t, []string{"127.0.0.1:5432:5432"}, service.Ports)
	require.Equal(t, initdbArgs, service.Environment["POSTGRES_INITDB_ARGS"])
	require.Equal(t, containerCommand((&Options{}).settings()), service.Command)
	require.Contains(t, string(text), "DEDUP_DATABASE_URL=postgres://postgres:"+service.Environment["POSTGRES_PASSWORD"]+"@127.0.0.1:5432/postgres")
}
