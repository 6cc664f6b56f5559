// Package wire sends the library's own statements: several in one round trip, prepared if the
// connection prepares, in all of pgx's modes. It determines the outcome of a COMMIT from the
// connection, and whether a fresh transaction may avoid an error. It depends on pgx and the
// protocol, but not on tool_dedup or calls.
package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Conn sends the library's own statements on a connection of the pool, or on the connection of a
// caller's transaction.
//
// It writes them with pgconn, because pgx.Batch makes some thirty allocations a statement
// (measured: 100 of the 166 of a first call). It uses pgx's batches on two kinds of connections: in
// simple_protocol, whose quoting of parameters belongs to pgx, and with a tracer, which would miss
// the statements otherwise.
type Conn struct {
	pgx *pgx.Conn
	tx  pgx.Tx // pgx's transaction for the effect; nil if pgx's batches make it
	// prepared are the statements that the server has prepared, by name. A statement that is out of
	// date is nil. The map is nil if the connection does not prepare statements.
	prepared map[string]*pgconn.StatementDescription
	viaBatch bool
	simple   bool // in simple_protocol
	tracer   pgx.QueryTracer
	database string
	// pipeline is reused for every round trip.
	pipeline Pipeline
	// undescribed is true if pgx sends arguments without a description of the parameters.
	undescribed bool
	// secret is a copy of the key for cancel requests. ShieldCommit makes it.
	secret []byte
}

// connKey is the key of a Conn in the data of its connection.
const connKey = "github.com/tooldedup/dedup conn"

// On returns the Conn of a connection.
func On(conn *pgx.Conn) *Conn {
	data := conn.PgConn().CustomData()
	if c, ok := data[connKey].(*Conn); ok {
		return c
	}
	config := conn.Config()
	c := &Conn{pgx: conn, database: DatabaseOf(config), tracer: config.Tracer}
	c.simple = config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
	c.undescribed = config.DefaultQueryExecMode == pgx.QueryExecModeExec || c.simple
	switch {
	case c.simple, config.Tracer != nil:
		c.viaBatch = true
	case config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement:
		c.prepared = make(map[string]*pgconn.StatementDescription)
	}
	if !c.viaBatch {
		c.tx = txOf(conn)
	}
	data[connKey] = c
	return c
}

// txOf returns a pgx.Tx of a connection without beginning a transaction, which the library's own
// pipeline does. pgx makes a Tx for every batch that begins with BEGIN, and refuses this batch
// before it sends anything. The Tx serves one transaction after the other: only Commit and Rollback
// would end it, and the guard passes neither on. docs/upstream/pgx-tx-of-a-connection.md lists the
// behaviour of pgx that this needs, and a test there checks it.
func txOf(conn *pgx.Conn) pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	b.Queue("", unsendable{})
	return conn.SendBatch(context.Background(), b).Tx()
}

type unsendable struct{}

func (unsendable) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	return "", nil, errors.New("dedup: not to be sent")
}

// maxPrepared bounds the prepared statements of a connection, because programs may put values into
// the texts of their statements.
const maxPrepared = 1_000

// Prepare prepares the queries that the server has not prepared yet, in one round trip. Preparing
// waits for locks on the query's tables. A query without a name is sent as text, if any other is
// prepared: it may set a limit for those behind it.
func (c *Conn) Prepare(ctx context.Context, queries ...Query) error {
	if !c.NeedsPrepare(queries...) {
		return nil
	}
	var unknown []Query
	for _, q := range queries {
		if c.prepared[q.Name] == nil {
			unknown = append(unknown, q)
		}
	}
	p := c.pgx.PgConn().StartPipeline(ctx)
	if len(c.prepared) > maxPrepared {
		for name := range c.prepared {
			p.SendDeallocate(name)
		}
		clear(c.prepared)
		unknown = queries
	}
	for _, q := range unknown {
		if _, outdated := c.prepared[q.Name]; outdated {
			p.SendDeallocate(q.Name)
		}
		if q.Name == "" {
			p.SendQueryParams(q.Text, nil, nil, nil, nil)
		} else {
			p.SendPrepare(q.Name, q.Text, nil)
		}
	}
	err := p.Sync()
	for err == nil && len(unknown) > 0 {
		var got any
		got, err = p.GetResults()
		switch got := got.(type) {
		case *pgconn.StatementDescription: // keep those before a failed one: the server keeps them
			got.Name, got.SQL = unknown[0].Name, unknown[0].Text
			c.prepared[got.Name] = got
			unknown = unknown[1:]
		case *pgconn.ResultReader:
			_, err = got.Close()
			unknown = unknown[1:]
		}
	}
	return cmp.Or(err, p.Close())
}

// Invalidate makes Prepare prepare a statement again: the types of its parameters were chosen when
// it was prepared, and may not fit the tables any longer.
func (c *Conn) Invalidate(q Query) {
	if c.prepared[q.Name] != nil {
		c.prepared[q.Name] = nil
	}
}

// InvalidateAfter invalidates all prepared statements if err means that they are gone or out of
// date. Use it for a caller's connection, which the library must not close.
func (c *Conn) InvalidateAfter(err error) {
	if unusable(err) {
		c.InvalidateAll()
	}
}

// InvalidateAll makes Prepare prepare all statements again. Until then they are sent as texts.
func (c *Conn) InvalidateAll() {
	for name := range c.prepared {
		c.prepared[name] = nil
	}
}

// NeedsPrepare reports whether Prepare would prepare one of the statements.
func (c *Conn) NeedsPrepare(queries ...Query) bool {
	return c.prepared != nil && slices.ContainsFunc(queries, func(q Query) bool { return q.Name != "" && c.prepared[q.Name] == nil })
}

// Described reports whether the parameter types of a statement were chosen earlier, and so may be
// out of date. The statement is prepared, or pgx may have cached its description.
func (c *Conn) Described(q Query) bool {
	return c.prepared[q.Name] != nil || c.pgx.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe
}

// unusable reports whether an error makes a connection useless: its server was demoted, or its
// prepared statements are gone or out of date.
func unusable(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case CodeReadOnly, CodePreparedMissing, CodePreparedExists:
		return true
	}
	return isStalePlan(server)
}

// DropUnusable closes a connection that an error makes useless, so that the pool makes a new one.
func DropUnusable(ctx context.Context, conn *pgx.Conn, err error) {
	if unusable(err) {
		_ = conn.Close(ctx)
	}
}

// CheckSession returns an error if the session's client_encoding is not UTF8, which pgx assumes.
// With another encoding a key is stored as other characters, and its next call does not find the
// record (seen: two effects without an error). The server reports the setting unasked, so checking
// sends nothing.
func CheckSession(pg *pgconn.PgConn) error {
	if v := pg.ParameterStatus("client_encoding"); v != "" && v != "UTF8" {
		return fmt.Errorf("dedup: client_encoding is %s and must be UTF8", v)
	}
	return nil
}

// LimitIO bounds reads and writes of conn. It has the effect of a context with a timeout, without
// ten allocations.
func LimitIO(conn *pgx.Conn, limit time.Duration) {
	_ = conn.PgConn().Conn().SetDeadline(time.Now().Add(limit)) // fails where it is closed
}

// UnlimitIO removes that bound. It does not change a closed connection, which has a deadline of
// pgx.
func UnlimitIO(conn *pgx.Conn) {
	if pg := conn.PgConn(); !pg.IsClosed() {
		_ = pg.Conn().SetDeadline(time.Time{})
	}
}

// RollbackTimeout bounds a ROLLBACK, which continues after the caller's context ends. A connection
// that does not answer in time is closed.
const RollbackTimeout = 5 * time.Second

// Rollback ends an open transaction of conn, even if the caller's context ended. It closes a
// connection that does not answer.
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

// Conn returns pgx's connection.
func (c *Conn) Conn() *pgx.Conn { return c.pgx }

// PgConn returns pgx's low-level connection.
func (c *Conn) PgConn() *pgconn.PgConn { return c.pgx.PgConn() }

// Database names the database of the connection: its host, port and name.
func (c *Conn) Database() string { return c.database }

// DatabaseOf names the database of a configuration.
func DatabaseOf(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}

// Query is an SQL text of the library and the name under which it is prepared. Equal texts have
// equal names, so that Dedupers that share a connection share its statements.
type Query struct{ Text, Name string }

// NewQuery names a text.
func NewQuery(text string) Query {
	sum := sha256.Sum256([]byte(text))
	return Query{Text: text, Name: "tool_dedup_" + hex.EncodeToString(sum[:8])}
}

// Distinct returns each query with a name once.
func Distinct(queries []Query) []Query {
	var once []Query
	known := make(map[string]bool, len(queries))
	for _, q := range queries {
		if q.Name == "" || !known[q.Name] {
			known[q.Name] = true
			once = append(once, q)
		}
	}
	return once
}

// Begin is a BEGIN with its options.
type Begin struct {
	Query
	options pgx.TxOptions
}

// NewBegin returns the BEGIN of a transaction at an isolation level.
func NewBegin(level pgx.TxIsoLevel) Begin {
	return Begin{NewQuery("begin isolation level " + string(level)), pgx.TxOptions{IsoLevel: level}}
}

// Acquire takes a connection from the pool. It returns errors of [WithPoolUse]. If connect_timeout
// ended the making of a connection and ctx goes on, the error is transient.
func Acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	conn, err := pool.Acquire(ctx)
	if ctx.Err() == nil && isConnectTimeout(err) {
		err = connectTimeout{err}
	}
	return conn, WithPoolUse(pool, err)
}

// WithPoolUse adds the number of connections in use to the error of a pool, if a context ended
// while the pool waited for one. pgxpool returns the context's own error then, and pgconn never
// does.
func WithPoolUse(pool *pgxpool.Pool, err error) error {
	if err != context.Canceled && err != context.DeadlineExceeded {
		return err
	}
	stat := pool.Stat()
	text := fmt.Sprintf("waiting for a connection: %d of the pool's %d are in use", stat.AcquiredConns(), stat.MaxConns())
	if n := stat.ConstructingConns(); n > 0 {
		text += fmt.Sprintf(" and %d are being opened", n)
	}
	return fmt.Errorf("dedup: %s: %w", text, err)
}
