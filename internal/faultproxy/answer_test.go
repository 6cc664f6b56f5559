package faultproxy_test

import (
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// dialRaw starts a session through p without a driver, up to the first ReadyForQuery.
func dialRaw(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	u, err := url.Parse(p.URL())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	front := pgproto3.NewFrontend(conn, conn)
	front.Send(&pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters:      map[string]string{"user": u.User.Username(), "database": u.Path[1:]},
	})
	require.NoError(t, front.Flush())
	for {
		message, err := front.Receive()
		require.NoError(t, err)
		if _, ready := message.(*pgproto3.ReadyForQuery); ready {
			return conn
		}
	}
}

// TestHowConnectionsEnd looks at the bytes beneath the driver.
func TestHowConnectionsEnd(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for name, test := range map[string]struct {
		fault   faultproxy.Fault
		arrives string
		reset   bool
	}{
		"ReplyReset":    {faultproxy.Fault{Kind: faultproxy.ReplyReset}, "", true},
		"ReplyClosed":   {faultproxy.Fault{Kind: faultproxy.ReplyClosed}, "", false},
		"ReplyCut":      {faultproxy.Fault{Kind: faultproxy.ReplyCut}, "T\x00\x00", false},
		"CutToClient0":  {faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToClient}, "", false},
		"CutToClient5":  {faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToClient, Bytes: 5}, "T\x00\x00\x00\x21", false},
		"CutToServer0":  {faultproxy.Fault{Kind: faultproxy.CutAfterBytes}, "", true},
		"CutToServer9":  {faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Bytes: 9}, "", true},
		"Dropped":       {faultproxy.Fault{Kind: faultproxy.Dropped}, "", true},
		"CutBeforeSync": {faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, "", true},
		"Delayed":       {faultproxy.Fault{Kind: faultproxy.Delayed, Delay: 1}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			conn := dialRaw(t, p)
			armed := p.Arm(test.fault)
			query, err := (&pgproto3.Query{String: "SELECT 42"}).Encode(nil)
			require.NoError(t, err)
			_, err = conn.Write(query)
			require.NoError(t, err)

			got, err := io.ReadAll(conn)
			require.Equal(t, test.arrives, string(got))
			if test.reset {
				require.ErrorIs(t, err, syscall.ECONNRESET)
			} else {
				require.NoError(t, err)
			}
			b.wait(t, armed.WaitSettled)
		})
	}
}
