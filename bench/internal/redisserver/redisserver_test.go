package redisserver_test

import (
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/bench/internal/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	t.Parallel()

	server, err := redisserver.Start(t.Context(), "../../../.cache/redis")
	if errors.Is(err, redisserver.ErrAbsent) {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	}
	require.NoError(t, err)
	require.NotEmpty(t, server.Version)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, client.Close())

	require.NoError(t, server.Stop())
	_, err = net.Dial("tcp", server.Addr)
	require.Error(t, err, "it has ended")
}

func TestAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redisserver.Start(t.Context(), t.TempDir())
	require.ErrorIs(t, err, redisserver.ErrAbsent)
}
