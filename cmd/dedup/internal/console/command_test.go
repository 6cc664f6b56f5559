package console_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/console"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// start runs the program and returns the link that it prints. stop interrupts it and returns
// its exit code.
func start(t *testing.T, args ...string) (link string, stop func() int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	out, printed := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		var errOut bytes.Buffer
		code := cli.Run(ctx, append([]string{"console"}, args...), cli.Streams{Out: printed, Err: &errOut}, console.Command())
		_ = printed.CloseWithError(io.EOF)
		ended <- code
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line), func() int {
		interrupt()
		return <-ended
	}
}

// browser follows redirects and keeps cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

func get(t *testing.T, client *http.Client, url string) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	res, err := client.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

// The link lets in one browser, once.
func TestConsole(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	d, err := dedup.New(db.Pool(t), nil)
	require.NoError(t, err)
	_, err = dedup.Do(t.Context(), d, dedup.Call{Scope: "acme", Tool: "refund", Key: "order-7"}, func(context.Context, pgx.Tx) (string, error) {
		return "hunter2", nil
	})
	require.NoError(t, err)

	link, stop := start(t, "--database-url", db.URL, "--actor", "ada")
	home, token, found := strings.Cut(link, "/open/")
	require.True(t, found, link)
	require.Greater(t, len(token), 20)
	mine, others := browser(t), browser(t)
	for _, page := range []string{"/", "/audit", "/open/", "/open/" + token + "x"} {
		code, _ := get(t, others, home+page)
		require.Equal(t, http.StatusForbidden, code, page)
	}
	code, text := get(t, mine, link)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `ada <span class="badge calm">read only</span>`)
	for _, client := range []*http.Client{others, mine} {
		code, _ = get(t, client, link)
		require.Equal(t, http.StatusForbidden, code)
	}
	const call = "/call?scope=acme&tool=refund&key=order-7"
	code, text = get(t, mine, home+call)
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, text, "hunter2")
	require.NotContains(t, text, "<form")

	// A second one in the same browser leaves the first one open.
	link, stopActing := start(t, "--database-url", db.URL, "--actor", "ada", "--results", "--act")
	acting, _, _ := strings.Cut(link, "/open/")
	_, _ = get(t, mine, link)
	_, text = get(t, mine, acting+call)
	require.Contains(t, text, "hunter2")
	require.Contains(t, text, "<form")
	code, _ = get(t, mine, home+call)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, exit.Interrupted, stop())
	require.Equal(t, exit.Interrupted, stopActing())
}

func TestMisuse(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{
		{"--listen", "0.0.0.0:0"}, {"--listen", ":0"}, {"--listen", "example.com:80"}, {"--listen", "127.0.0.1"},
		{"--actor", ""}, {"--timeout", "0s"}, {"x"},
	} {
		var out, errOut bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"console", "--database-url", "postgres://localhost/db"}, args...), cli.Streams{Out: &out, Err: &errOut}, console.Command())
		require.Equal(t, exit.Misused, code, "%v: %s", args, errOut.String())
		require.Empty(t, out.String())
	}
}
