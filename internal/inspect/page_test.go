package inspect

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestCursor(t *testing.T) {
	t.Parallel()

	want := place{List: "since", At: time.Now().UTC().Round(0), Scope: "acme & söhne", Key: "order 7\""}
	require.Regexp(t, `^[\w-]+$`, want.cursor("since"), "a shell takes it as it is")
	got, err := placeOf("since", want.cursor("since"))
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = placeOf("since", "")
	require.NoError(t, err)
	require.Zero(t, got)
	for _, wrong := range []string{"?", "abc", "e30", want.cursor("audit")} {
		_, err := placeOf("since", wrong)
		require.ErrorIs(t, err, ErrCursor, wrong)
	}
}

func TestWhere(t *testing.T) {
	t.Parallel()

	args := pgx.NamedArgs{"a": "x", "empty": "", "none": []string(nil), "nobody": []string{}, "n": int64(0)}
	require.Equal(t, "true\n   AND a = @a\n   AND b = ANY (@nobody)",
		where(args, "a = @a", "b = @empty", "b = @missing", "b = ANY (@none)", "b = ANY (@nobody)", "c < @n"))
}
