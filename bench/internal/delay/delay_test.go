package delay_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/bench/internal/delay"
)

// TestMain lets the test binary be the process of proxies that Start runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == delay.CommandName {
		if err := delay.Serve(os.Stdin, os.Stdout, os.Args[2:]); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serve starts a server that hands each connection to serve, and returns its
// address.
func serve(t *testing.T, handle func(*net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handle(conn.(*net.TCPConn))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// connect connects to the target through a proxy.
func connect(t *testing.T, target string, by time.Duration) *net.TCPConn {
	t.Helper()
	process, err := delay.Start(context.WithoutCancel(t.Context()), by, target)
	require.NoError(t, err)
	conn := dial(t, process.Addrs[0])
	t.Cleanup(func() { _ = conn.Close(); process.Close() })
	return conn
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn.(*net.TCPConn)
}

// roundTrips returns how long the echoes of n bytes took, in ascending order.
func roundTrips(t *testing.T, conn net.Conn, n int) []time.Duration {
	t.Helper()
	var took []time.Duration
	one := []byte{1}
	for range n {
		start := time.Now()
		_, err := conn.Write(one)
		require.NoError(t, err)
		_, err = io.ReadFull(conn, one)
		require.NoError(t, err)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took
}

// The proxy of a process of its own adds its delay twice to a round trip. How much more that
// takes is up to the machine; a run of the benchmark measures and reports it.
func TestDelayIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()

	for _, by := range []time.Duration{500 * time.Microsecond, 5 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			took := roundTrips(t, connect(t, serve(t, echo), by), 100)
			require.GreaterOrEqual(t, took[0], 2*by, "the fastest")
		})
	}
}

// What is under way at the same time waits at the same time.
func TestPipelining(t *testing.T) {
	t.Parallel()

	const by, chunks = 50 * time.Millisecond, 1000
	conn := connect(t, serve(t, echo), by)
	start := time.Now()
	for range chunks {
		_, err := conn.Write(make([]byte, 10))
		require.NoError(t, err)
	}
	_, err := io.ReadFull(conn, make([]byte, 10*chunks))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 2*by)
	require.Less(t, time.Since(start), chunks*by/2, "not one after another")
}

// Ten megabytes arrive intact in both directions, with the half-close behind them.
func TestIntact(t *testing.T) {
	t.Parallel()

	sent := make([]byte, 10<<20)
	_, _ = rand.Read(sent)
	conn := connect(t, serve(t, echo), time.Millisecond)
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		if err == nil {
			err = conn.CloseWrite()
		}
		wrote <- err
	}()
	received, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, <-wrote)
	require.True(t, slices.Equal(sent, received))
}

// The server goes on talking after the client has closed its half.
func TestHalfClose(t *testing.T) {
	t.Parallel()

	conn := connect(t, serve(t, func(conn *net.TCPConn) {
		asked, _ := io.ReadAll(conn)
		_, _ = conn.Write(append([]byte("got "), asked...))
	}), time.Millisecond)
	_, err := conn.Write([]byte("this"))
	require.NoError(t, err)
	require.NoError(t, conn.CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "got this", string(answer))
}

func TestResetByTheServer(t *testing.T) {
	t.Parallel()

	conn := connect(t, serve(t, func(conn *net.TCPConn) {
		_, _ = io.ReadFull(conn, make([]byte, 1))
		_ = conn.SetLinger(0)
	}), time.Millisecond)
	_, err := conn.Write([]byte{1})
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.ErrorContains(t, err, "reset")
}

func TestResetByTheClient(t *testing.T) {
	t.Parallel()

	ended := make(chan error, 1)
	conn := connect(t, serve(t, func(conn *net.TCPConn) {
		_, _ = conn.Write([]byte{1})
		_, err := io.ReadAll(conn)
		ended <- err
	}), time.Millisecond)
	_, err := io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, conn.SetLinger(0))
	require.NoError(t, conn.Close())
	require.ErrorContains(t, <-ended, "reset")
}

func TestNobodyBehindTheProxy(t *testing.T) {
	t.Parallel()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	gone := listener.Addr().String()
	require.NoError(t, listener.Close())
	process, err := delay.Start(context.WithoutCancel(t.Context()), 0, gone)
	require.NoError(t, err)
	t.Cleanup(func() { process.Close() })
	// The reset may come before or after the connection is made.
	conn, err := net.Dial("tcp", process.Addrs[0])
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.ReadAll(conn)
	}
	require.ErrorContains(t, err, "reset")
}

func TestCloseEndsWhatIsOpen(t *testing.T) {
	t.Parallel()

	process, err := delay.Start(t.Context(), time.Millisecond, serve(t, echo))
	require.NoError(t, err)
	conn := dial(t, process.Addrs[0])
	roundTrips(t, conn, 1)
	process.Close()
	_, _ = io.ReadAll(conn) // ends
}

func TestServeRefusesBadArguments(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{nil, {"1ms"}, {"soon", "a:1"}, {"-1ms", "a:1"}} {
		require.Error(t, delay.Serve(strings.NewReader(""), io.Discard, args), args)
	}
}
