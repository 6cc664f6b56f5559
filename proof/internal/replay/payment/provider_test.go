package payment

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProvider makes many payments and compares the answers with the book.
func TestProvider(t *testing.T) {
	t.Parallel()
	killed := make(chan string, 1000)
	p := LookUpSettles.Start(1, func(Mishap) bool { return true }, func(worker string) { killed <- worker })
	c := &Tool{URL: p.URL, Worker: "worker-1"}
	answered, refs := map[string]string{}, 200
	for i := range refs {
		ref := fmt.Sprint("call-", i)
		var id string
		err := c.ask(t.Context(), http.MethodPost, "", ref, &id)
		if err == nil {
			answered[ref] = id
		}
		require.Equal(t, err == nil, p.Met(ref) == 0)
	}
	p.Close()
	for ref, id := range answered {
		require.Equal(t, []string{id}, p.Book(ref))
	}
	requests, counts := p.Requests()
	require.Equal(t, refs, requests)
	unanswered := 0
	for _, m := range Mishaps {
		require.Positive(t, counts[m], m)
		unanswered += counts[m]
	}
	require.Equal(t, refs-len(answered), unanswered)
	require.Len(t, killed, counts[KilledBefore]+counts[KilledAfter])
	require.Equal(t, "worker-1", <-killed)
}

// TestProviderWithKeys pays once with a key, and twice without one.
func TestProviderWithKeys(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]int{Keys: 1, LookUp: 3, Neither: 3} {
		p := kind.Start(1, func(Mishap) bool { return false }, nil)
		t.Cleanup(p.Close)
		c := &Tool{URL: p.URL}
		for range 3 {
			var id string
			require.NoError(t, c.ask(t.Context(), http.MethodPost, "key", "call", &id))
		}
		require.Len(t, p.Book("call"), want)
		var found []string
		require.NoError(t, c.ask(t.Context(), http.MethodGet, "", "call", &found))
		require.Equal(t, p.Book("call"), found)
	}
}
