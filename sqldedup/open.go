package sqldedup

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tooldedup/dedup/internal/wire"
)

// OpenDB returns a *sql.DB on the connections of pool, for gorm.Open, bun.NewDB, sqlx.NewDb and
// ent. Closing it does not close pool.
//
// Unlike [stdlib.OpenDBFromPool], it works with any SetMaxIdleConns, SetMaxOpenConns and
// SetConnMaxLifetime: every connection returns to pool after its statement or transaction.
// OpenDBFromPool keeps up to SetMaxIdleConns connections from the pool's other users; once it keeps
// all, those wait for ever. In [sql.Conn.Raw] the connection is not a *stdlib.Conn, but has its
// method Conn.
func OpenDB(pool *pgxpool.Pool) *sql.DB {
	return sql.OpenDB(pooled{stdlib.GetPoolConnector(pool), pool})
}

// pooled opens connections of pool.
type pooled struct {
	driver.Connector
	pool *pgxpool.Pool
}

func (p pooled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, wire.WithPoolUse(p.pool, err)
	}
	return lent{conn.(*stdlib.Conn)}, nil
}

// lent is a connection that database/sql returns after each use.
type lent struct{ *stdlib.Conn }

var (
	_ driver.Validator   = lent{}
	_ driver.ConnBeginTx = lent{}
)

// begunKey is the key of the context of a connection's transaction, in the connection's data.
const begunKey = "github.com/tooldedup/dedup/sqldedup begun"

// BeginTx keeps ctx for DoTx.
func (l lent) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	l.Conn.Conn().PgConn().CustomData()[begunKey] = ctx
	return l.Conn.BeginTx(ctx, opts)
}

// Close returns the connection to the pool.
func (l lent) Close() error {
	delete(l.Conn.Conn().PgConn().CustomData(), begunKey)
	return l.Conn.Close()
}

// IsValid makes database/sql close the connection after use, which returns it to the pool.
func (lent) IsValid() bool { return false }
