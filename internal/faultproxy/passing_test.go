package faultproxy_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestPassing sends every feature of Postgres through the proxy, with a fault that hits nothing.
func TestPassing(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			p.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtSQL("no such text")})
			conn := b.connect(t, p, mode)

			t.Run("LargeResult", func(t *testing.T) {
				rows, err := conn.Query(b.ctx, "SELECT repeat('x', $1) FROM generate_series(1, 5000)", 1000)
				require.NoError(t, err)
				texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				require.Len(t, texts, 5000)
				require.Greater(t, p.Snapshot().BytesToClient, int64(5_000_000))
			})

			t.Run("LargeArgument", func(t *testing.T) {
				var size int
				err := conn.QueryRow(b.ctx, "SELECT length($1::text)", strings.Repeat("x", 1<<20)).Scan(&size)
				require.NoError(t, err)
				require.Equal(t, 1<<20, size)
			})

			t.Run("Copy", func(t *testing.T) {
				_, err := conn.Exec(b.ctx, "CREATE TEMPORARY TABLE copied (n int, x text)")
				require.NoError(t, err)
				text := strings.Repeat("y", 100)
				copied, err := conn.CopyFrom(b.ctx, pgx.Identifier{"copied"}, []string{"n", "x"},
					pgx.CopyFromSlice(5000, func(i int) ([]any, error) { return []any{i, text}, nil }))
				require.NoError(t, err)
				require.EqualValues(t, 5000, copied)

				var out strings.Builder
				tag, err := conn.PgConn().CopyTo(b.ctx, &out, "COPY copied TO STDOUT")
				require.NoError(t, err)
				require.EqualValues(t, 5000, tag.RowsAffected())

				_, err = conn.PgConn().CopyFrom(b.ctx, strings.NewReader("not a number"), "COPY copied FROM STDIN")
				require.ErrorContains(t, err, "22P02")
			})

			t.Run("ErrorThenMore", func(t *testing.T) {
				_, err := conn.Exec(b.ctx, "SELECT 1 / $1::int", 0)
				require.ErrorContains(t, err, "22012")
				p.Reset()
				require.NoError(t, conn.Ping(b.ctx))
				require.Equal(t, 1, p.Snapshot().RoundTrips, "the answers are still in step")
			})

			t.Run("Notify", func(t *testing.T) {
				channel := pgx.Identifier{t.Name()}.Sanitize()
				if len(channel) > 60 {
					channel = `"` + channel[len(channel)-60:]
				}
				_, err := conn.Exec(b.ctx, "LISTEN "+channel)
				require.NoError(t, err)
				p.Reset()
				_, err = b.direct.Exec(b.ctx, "NOTIFY "+channel+", 'hello'")
				require.NoError(t, err)
				notification, err := conn.WaitForNotification(b.ctx)
				require.NoError(t, err)
				require.Equal(t, "hello", notification.Payload)
				require.Zero(t, p.Snapshot().RoundTrips)
			})
		})
	}
}

// TestFlush has a client that wants an answer in the middle of a unit. It gets the answer, and no
// fault can hit the rest.
func TestFlush(t *testing.T) {
	t.Parallel()

	p := setup(t).proxy(t)
	conn := dialRaw(t, p)
	armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Dropped})
	front := pgproto3.NewFrontend(conn, conn)
	receive := func(want pgproto3.BackendMessage) {
		message, err := front.Receive()
		require.NoError(t, err)
		require.IsType(t, want, message)
	}
	front.Send(&pgproto3.Parse{Query: "SELECT 42"})
	front.Send(&pgproto3.Flush{})
	require.NoError(t, front.Flush())
	receive(&pgproto3.ParseComplete{})
	front.Send(&pgproto3.Sync{})
	require.NoError(t, front.Flush())
	receive(&pgproto3.ReadyForQuery{})
	require.Zero(t, armed.Count())
	front.Send(&pgproto3.Query{String: "SELECT 42"})
	require.NoError(t, front.Flush())
	_, err := front.Receive()
	require.Error(t, err, "the next unit is hit")
}
