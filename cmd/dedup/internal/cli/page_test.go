package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/exit"
)

func TestPage(t *testing.T) {
	t.Parallel()

	type place struct{ Scope, Key string }
	want := place{"acme & söhne", "order 7\""}
	require.Regexp(t, `^[\w-]+$`, cursor(want), "a shell takes it as it is")
	var got place
	require.NoError(t, (&Page{Limit: 1, After: cursor(want)}).position(&got))
	require.Equal(t, want, got)
	require.NoError(t, (&Page{Limit: 1000}).position(&got))
	require.Equal(t, want, got, "left alone")

	other := cursor(struct{ Another string }{"list"})
	for _, wrong := range []Page{{Limit: 0}, {Limit: 1001}, {Limit: 1, After: "?"}, {Limit: 1, After: "abc"}, {Limit: 1, After: other}} {
		var usage *exit.UsageError
		require.ErrorAs(t, wrong.position(&got), &usage, "%+v", wrong)
	}
}
