package httpdedup

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRouted(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"POST /orders": true, "/orders/{id}/cancel": true, "shop.example/orders": true, "POST /orders/{$}": true, "/orders/{id}": true,
		"": false, "/": false, "POST /orders/": false, "/orders/*": false, "/orders/{rest...}": false,
	} {
		require.Equal(t, want, routed(&http.Request{Pattern: pattern}), pattern)
	}
}
