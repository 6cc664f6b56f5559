package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CheckSession reports whether a session reads and writes text as pgx takes for
// granted. With another client_encoding a key is stored as other characters than
// it is made of, and its next call is a stranger (seen: two effects, no error).
// The server reports the setting by itself, so that asking costs nothing.
func CheckSession(pg *pgconn.PgConn) error {
	if v := pg.ParameterStatus("client_encoding"); v != "" && v != "UTF8" {
		return fmt.Errorf("dedup: client_encoding is %s and must be UTF8", v)
	}
	return nil
}

// LimitIO bounds what is read from and written to conn. That is what a context
// with a timeout comes to in the end, without its ten allocations.
func LimitIO(conn *pgx.Conn, limit time.Duration) {
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(limit)) // fails where it is closed
}

// UnlimitIO takes that limit away. It leaves a closed connection alone: pgx gives it a
// deadline of its own.
func UnlimitIO(conn *pgx.Conn) {
	if pg := conn.PgConn(); !pg.IsClosed() {
		_ = pg.Conn().SetDeadline(time.Time{})
	}
}

// RollbackTimeout bounds a ROLLBACK, which runs on after the caller's context
// has ended; a connection that does not answer in time is closed.
const RollbackTimeout = 5 * time.Second

// Rollback ends whatever transaction is open on conn. It survives the caller's
// context, and closes a connection that does not answer.
func Rollback(ctx context.Context, conn *pgx.Conn) {
	pg := conn.PgConn()
	if pg.IsClosed() || pg.TxStatus() == 'I' && !pg.IsBusy() {
		return
	}
	if !pg.IsBusy() {
		LimitIO(conn, RollbackTimeout)
		_, err := conn.Exec(context.WithoutCancel(ctx), "rollback")
		UnlimitIO(conn)
		if err == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}

// homeKey is where a connection's home is kept, for as long as it lives.
const homeKey = "github.com/tooldedup/dedup home"

// Home names the database that a connection was made to.
func Home(conn *pgx.Conn) string {
	data := conn.PgConn().CustomData()
	home, ok := data[homeKey].(string)
	if !ok {
		home = HomeOf(conn.Config())
		data[homeKey] = home
	}
	return home
}

// HomeOf names the database that a configuration leads to.
func HomeOf(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}
