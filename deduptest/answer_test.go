package deduptest

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestCanonicalAnswers(t *testing.T) {
	t.Parallel()
	type ticket struct {
		Title string `json:"title"`
		ID    int64  `json:"id"`
	}
	a, err := canonical(ticket{"x", 9007199254740993})
	require.NoError(t, err)
	b, err := canonical(json.RawMessage(`{"id": 9007199254740993, "title": "x"}`))
	require.NoError(t, err)
	require.Equal(t, a, b)
	c, err := canonical(ticket{"x", 9007199254740992})
	require.NoError(t, err)
	require.NotEqual(t, a, c)
	none, err := canonical(nil)
	require.NoError(t, err)
	require.Equal(t, "null", none)
}

func TestAnswersThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	for _, answer := range []any{dedup.Result[int]{}, &dedup.Result[string]{}} {
		_, err := canonical(answer)
		require.ErrorIs(t, err, errWholeResult)
	}
	for _, answer := range []any{math.NaN(), func() {}} {
		_, err := canonical(answer)
		require.ErrorContains(t, err, "no JSON")
	}
}
