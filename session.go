package dedup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// checkSession tells whether a session reads and writes text as pgx takes for
// granted. With another client_encoding a key is stored as other characters than
// it is made of, and its next call is a stranger (seen: two effects, no error).
// The server reports the setting by itself, so that asking costs nothing.
func checkSession(pg *pgconn.PgConn) error {
	if v := pg.ParameterStatus("client_encoding"); v != "" && v != "UTF8" {
		return fmt.Errorf("dedup: client_encoding is %s and must be UTF8", v)
	}
	return nil
}

// acquire takes a connection whose session can be relied on. Those that somebody
// has spoiled for everybody are closed, and the pool makes new ones.
func (d *Deduper) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for spoiled := int32(0); ; spoiled++ {
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		err = checkSession(conn.Conn().PgConn())
		if err == nil {
			return conn, nil
		}
		_ = conn.Conn().Close(ctx)
		conn.Release()
		if spoiled > d.pool.Stat().MaxConns() { // new ones are no better
			return nil, err
		}
	}
}
