package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestStatementTimes: the first answer has the same times as every later one,
// though it was not read from the record.
func TestStatementTimes(t *testing.T) {
	t.Parallel()

	type row struct {
		Ref string `json:"ref"`
	}
	ctx, b := setup(t, nil)
	_, err := dedup.Do(ctx, b.d, call("warm"), effect("warm"))
	require.NoError(t, err)
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING ref`, "k")
	first, err := dedup.DoStatement[row](ctx, b.d, call("k"), insert)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	again, err := dedup.DoStatement[row](ctx, b.d, call("k"), insert)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, again.CreatedAt, first.CreatedAt)
	require.Equal(t, again.ExpiresAt, first.ExpiresAt)
	require.True(t, first.ExpiresAt.After(first.CreatedAt))
}
