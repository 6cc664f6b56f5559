package delay_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/proof/bench/internal/delay"
)

// TestMain also runs the proxy process of Start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == delay.CommandName {
		if err := delay.Serve(os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// echo connects through a proxy to a server that returns its input.
func echo(t *testing.T, by time.Duration) (conn net.Conn, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	addr, stop, err := delay.Start(context.WithoutCancel(t.Context()), by, listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(stop)
	conn, err = net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn, stop
}

// The proxy adds its delay twice to a round trip. The machine adds more. A run of the benchmark
// measures and reports it.
func TestRoundTripTakesTwoDelays(t *testing.T) {
	t.Parallel()

	const by = 5 * time.Millisecond
	conn, _ := echo(t, by)
	for range 10 {
		start := time.Now()
		_, err := conn.Write([]byte{1})
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 2*by)
	}
}

// Chunks that are under way together wait together and arrive intact. In turn they would exceed the
// connection's deadline.
func TestPipelining(t *testing.T) {
	t.Parallel()

	conn, _ := echo(t, 2*time.Second)
	sent := make([]byte, 10<<20)
	_, _ = rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		for at := 0; at < len(sent); at += 1 << 10 {
			if _, err := conn.Write(sent[at : at+1<<10]); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	received := make([]byte, len(sent))
	_, err := io.ReadFull(conn, received)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.Equal(t, sent, received)
}

func TestStopEndsWhatIsOpen(t *testing.T) {
	t.Parallel()

	conn, stop := echo(t, 0)
	_, err := conn.Write([]byte{1})
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	stop()
	_, _ = io.ReadAll(conn) // ends
}

func TestServeRefusesBadArguments(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{nil, {"1ms"}, {"soon", "a:1"}, {"-1ms", "a:1"}} {
		require.Error(t, delay.Serve(strings.NewReader(""), io.Discard, args), args)
	}
}
