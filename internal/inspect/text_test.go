package inspect

import (
	osexec "os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestLasting(t *testing.T) {
	t.Parallel()

	for d, text := range map[time.Duration]string{
		0: "0 µs", 12 * time.Microsecond: "12 µs", 12345 * time.Microsecond: "12.3 ms", 12 * time.Millisecond: "12 ms",
		1250 * time.Millisecond: "1.3 s", 59400 * time.Millisecond: "59 s", 59600 * time.Millisecond: "1 min",
		90 * time.Second: "2 min", 59*time.Minute + 40*time.Second: "1 h", 24*time.Hour - 3*time.Second: "24 h",
		47*time.Hour + 40*time.Minute: "2 days", 743*time.Hour + 59*time.Minute: "31 days",
	} {
		require.Equal(t, text, Lasting(d), d)
	}
}

// TestWord passes names through a shell to a command, with any first character and with characters
// that cannot be seen.
func TestWord(t *testing.T) {
	t.Parallel()

	shell, err := osexec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	for _, text := range []string{
		"order-7", "order 7", "-kY3", "--", "it's", `a\b`, `$(x) "y"`, "a\u202eb", "a\u200bb'", "\u00a0", "\u2028", "ключ", "\ufeff", "é",
	} {
		out, err := osexec.CommandContext(t.Context(), shell, "-c", `printf '%s|' `+Name("acme", "refund", text)).Output()
		require.NoError(t, err, text)
		require.Equal(t, "acme|refund|"+text+"|", strings.TrimPrefix(string(out), "--|"), Word(text))
		require.Equal(t, strings.HasPrefix(text, "-"), strings.HasPrefix(Name("acme", "refund", text), "-- "), text)
		require.Equal(t, -1, strings.IndexFunc(Word(text), func(r rune) bool { return !unicode.IsPrint(r) }), text)
	}
	require.Equal(t, `a\u202eb c\x1b`, Printable("a\u202eb\tc\x1b"))
}

func TestAgo(t *testing.T) {
	t.Parallel()

	now := time.Now()
	for age, text := range map[time.Duration]string{
		0: "now", 900 * time.Millisecond: "now", -900 * time.Millisecond: "now", 2345 * time.Millisecond: "2 s ago",
		2 * time.Hour: "2 h ago", -24 * time.Hour: "in 24 h",
	} {
		require.Equal(t, text, Ago(now.Add(-age), now), age)
	}
}
