package payment

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// TestProvider asks for many payments and compares what was answered with the book.
func TestProvider(t *testing.T) {
	t.Parallel()
	all, err := plan.ParseSet("all")
	require.NoError(t, err)
	killed := make(chan string, 1000)
	p, err := LookUpSettles.Start(1, all, func(worker string) bool {
		killed <- worker
		return true
	})
	require.NoError(t, err)
	c := newClient(p.URL, "worker-1")
	answered, refs := map[string]string{}, 200
	for i := range refs {
		ref := fmt.Sprint("call-", i)
		id, err := c.pay(t.Context(), "", ref)
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
	for _, m := range Mishaps() {
		require.Positive(t, counts[m], m)
		unanswered += counts[m]
	}
	require.Equal(t, refs-len(answered), unanswered)
	require.Len(t, killed, counts[KilledBefore]+counts[KilledAfter])
	require.Equal(t, "worker-1", <-killed)
}

// TestProviderWithKeys pays once for a key, and again without one.
func TestProviderWithKeys(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]int{Keys: 1, LookUp: 3, Neither: 3} {
		p, err := kind.Start(1, plan.Set{}, nil)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		c := newClient(p.URL, "")
		for range 3 {
			_, err := c.pay(context.WithoutCancel(t.Context()), "key", "call")
			require.NoError(t, err)
		}
		require.Len(t, p.Book("call"), want)
		found, err := c.find(t.Context(), "call")
		require.NoError(t, err)
		require.Equal(t, p.Book("call"), found)
	}
}
