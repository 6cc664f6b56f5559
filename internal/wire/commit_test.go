package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestShieldCommit: the cancel requests that pgx sends for a shielded connection have a blank
// secret, and do not end what it waits for. If a release of pgx keeps a copy of the secret, this
// fails.
func TestShieldCommit(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	for name, tc := range map[string]struct {
		shield  bool
		handler func(*pgx.ConnConfig)
	}{
		"Plain":    {false, func(*pgx.ConnConfig) {}},
		"Shielded": {true, func(*pgx.ConnConfig) {}},
		"ShieldedCancelHandler": {true, func(c *pgx.ConnConfig) {
			c.BuildContextWatcherHandler = cancelHandler
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			config, err := pgx.ParseConfig(db.URL)
			require.NoError(t, err)
			requests := make(chan []byte, 1)
			dial := config.DialFunc
			config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return &cancelSpy{Conn: conn, requests: requests}, err
			}
			tc.handler(config)
			conn, err := pgx.ConnectConfig(ctx, config)
			require.NoError(t, err)
			defer conn.Close(context.WithoutCancel(ctx))
			other, err := pgx.Connect(ctx, db.URL)
			require.NoError(t, err)
			defer other.Close(context.WithoutCancel(ctx))

			secret := bytes.Clone(conn.PgConn().SecretKey())
			ShieldCommit(conn)()
			require.Equal(t, secret, conn.PgConn().SecretKey(), "it is put back")
			require.NotEqual(t, make([]byte, len(secret)), secret)

			const lock = 7
			pid := conn.PgConn().PID()
			_, err = other.Exec(ctx, `SELECT pg_advisory_lock($1)`, lock+int64(pid))
			require.NoError(t, err)
			lift := func() {}
			if tc.shield {
				lift = ShieldCommit(conn)
			}
			waiting, giveUp := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				_, err := conn.Exec(waiting, `SELECT pg_advisory_xact_lock($1)`, lock+int64(pid))
				ended <- err
			}()
			waits := func() (waits bool) {
				require.NoError(t, other.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, pid).Scan(&waits))
				return waits
			}
			for !waits() {
			}
			giveUp()
			request := <-requests
			if tc.shield {
				require.Equal(t, make([]byte, len(secret)), request)
				require.True(t, waits(), "the server goes on")
			} else {
				require.Equal(t, secret, request)
			}
			_, err = other.Exec(ctx, `SELECT pg_advisory_unlock_all()`)
			require.NoError(t, err)
			<-ended
			lift()
			if conn.IsClosed() {
				<-conn.PgConn().CleanupDone()
			} else {
				require.Equal(t, secret, conn.PgConn().SecretKey())
			}
		})
	}
}

// cancelSpy tells the secret of a cancel request.
type cancelSpy struct {
	net.Conn
	requests chan<- []byte
}

func (s *cancelSpy) Write(b []byte) (int, error) {
	if len(b) > 12 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
		s.requests <- bytes.Clone(b[12:])
	}
	return s.Conn.Write(b)
}

// cancelHandler sends a cancel request when a context ends, and closes nothing.
func cancelHandler(pg *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: pg, CancelRequestDelay: 0, DeadlineDelay: time.Hour}
}
