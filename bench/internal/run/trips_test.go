package run

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTurnsAreRoundTrips(t *testing.T) {
	t.Parallel()

	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, server)
	}()
	var turns atomic.Int64
	conn := &turnConn{Conn: client, turns: &turns}
	for range 3 {
		_, err := conn.Write([]byte("ask"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 3))
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, turns.Load())

	// What is answered in parts is one turn.
	_, err := conn.Write([]byte("ab"))
	require.NoError(t, err)
	for range 2 {
		_, err := io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	<-done
	require.EqualValues(t, 4, turns.Load())
}
