package faultproxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUpstream(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ url, network, address, via string }{
		{"postgres://u:p%40@db:6000/x?sslmode=require&a=b", "tcp", "db:6000", "postgres://u:p%40@127.0.0.1:9/x?a=b&sslmode=disable"},
		{"postgresql://localhost/x", "tcp", "localhost:5432", "postgresql://127.0.0.1:9/x?sslmode=disable"},
		{"postgres://[::1]/x", "tcp", "[::1]:5432", "postgres://127.0.0.1:9/x?sslmode=disable"},
		{"postgres://u@/x?host=/run/pg&port=6000", "unix", "/run/pg/.s.PGSQL.6000", "postgres://u@127.0.0.1:9/x?sslmode=disable"},
	} {
		up, err := parseUpstream(test.url)
		require.NoError(t, err)
		require.Equal(t, test.network, up.network)
		require.Equal(t, test.address, up.address)
		require.Equal(t, test.via, up.via("127.0.0.1:9"))
	}

	for _, url := range []string{"host=db user=u", "mysql://db", "postgres://a,b/x", "postgres://a:b:c/", ""} {
		_, err := parseUpstream(url)
		require.Error(t, err, url)
		_, err = New(url)
		require.Error(t, err, url)
	}
}
