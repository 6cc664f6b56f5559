package scratchdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/scratchdb"
)

func TestURL(t *testing.T) {
	t.Parallel()

	got, err := scratchdb.URL("postgres://u:p@h:1/postgres?sslmode=disable", "other")
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@h:1/other?sslmode=disable", got)
}
