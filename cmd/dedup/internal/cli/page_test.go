package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
)

type position struct{ Scope, Key string }

func TestPage(t *testing.T) {
	t.Parallel()

	want := position{"acme & söhne", "order 7\""}
	cursor, err := cli.Cursor(want)
	require.NoError(t, err)
	require.Regexp(t, `^[\w-]+$`, cursor, "a shell takes it as it is")
	var got position
	require.NoError(t, (&cli.Page{Limit: 1, After: cursor}).Position(&got))
	require.Equal(t, want, got)
	require.NoError(t, (&cli.Page{Limit: 1000}).Position(&got))
	require.Equal(t, want, got, "left alone")

	other, err := cli.Cursor(struct{ Another string }{"list"})
	require.NoError(t, err)
	for _, wrong := range []cli.Page{{Limit: 0}, {Limit: 1001}, {Limit: 1, After: "?"}, {Limit: 1, After: "abc"}, {Limit: 1, After: other}} {
		var usage *exit.UsageError
		require.ErrorAs(t, wrong.Position(&got), &usage, "%+v", wrong)
	}
}
