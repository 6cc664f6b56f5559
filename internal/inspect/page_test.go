package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCursor(t *testing.T) {
	t.Parallel()

	type position struct{ Scope, Key string }
	want := position{"acme & söhne", "order 7\""}
	require.Regexp(t, `^[\w-]+$`, cursor(want), "a shell takes it as it is")
	got, err := place[position](cursor(want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = place[position]("")
	require.NoError(t, err)
	require.Zero(t, got)
	for _, wrong := range []string{"?", "abc", cursor(struct{ Another string }{"list"})} {
		_, err := place[position](wrong)
		require.ErrorIs(t, err, ErrCursor)
	}
}
