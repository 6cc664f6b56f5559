package server

import (
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRedis(t *testing.T) {
	t.Parallel()

	server, err := startRedis(t.Context(), "../../../.cache/redis")
	if errors.Is(err, ErrNoRedis) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	require.NoError(t, err)
	require.NotEmpty(t, server.Version)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, client.Close())

	require.NoError(t, server.stop())
	_, err = net.Dial("tcp", server.Addr)
	require.Error(t, err, "it has ended")
}

func TestNoRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := startRedis(t.Context(), t.TempDir())
	require.ErrorIs(t, err, ErrNoRedis)
}
