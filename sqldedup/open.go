package sqldedup

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tooldedup/dedup/internal/wire"
)

// OpenDB returns a *sql.DB on the connections of pool, for gorm.Open, bun.NewDB, sqlx.NewDb and ent.
// Closing it does not close pool.
//
// It is [stdlib.OpenDBFromPool], but that it takes any SetMaxIdleConns, SetMaxOpenConns and
// SetConnMaxLifetime: every connection goes back to pool after its statement or transaction. That
// of OpenDBFromPool keeps as many as SetMaxIdleConns says, which nobody else gets: once these are
// all of pool's, everybody who wants one waits for ever. In [sql.Conn.Raw] the connection is no
// *stdlib.Conn; it has its method Conn.
func OpenDB(pool *pgxpool.Pool) *sql.DB {
	return sql.OpenDB(pooled{stdlib.GetPoolConnector(pool), pool})
}

// pooled opens connections that pool has.
type pooled struct {
	driver.Connector
	pool *pgxpool.Pool
}

func (p pooled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, wire.Waited(p.pool, err)
	}
	return lent{conn.(*stdlib.Conn)}, nil
}

// lent is a connection that database/sql keeps for no longer than it uses it.
type lent struct{ *stdlib.Conn }

var _ driver.Validator = lent{}

// IsValid makes database/sql close the connection, which gives it back, and keep none idle.
func (lent) IsValid() bool { return false }
