// Package wire sends the library's own statements: several in one round trip, prepared
// where the connection prepares, in all of pgx's modes. It reads from a connection what
// is known of a COMMIT, and from an error what a fresh transaction may expect. It knows
// pgx and the protocol, and neither tool_dedup nor calls.
package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conn is where the library's own statements travel: a connection of the pool, or that of a
// caller's transaction.
//
// They are written with pgconn, because pgx.Batch costs some thirty allocations a statement
// (measured: 100 of the 166 of a first call). Two kinds of connections are left to pgx's
// batches: those in simple_protocol, whose quoting of parameters is pgx's own, and those with a
// tracer, which would not see the statements otherwise.
type Conn struct {
	pgx *pgx.Conn
	tx  pgx.Tx // of pgx, for the effect; nil where pgx's batches make it
	// prepared are the statements that the server knows by name; nil where
	// nothing is to be prepared. One that is out of date is nil.
	prepared map[string]*pgconn.StatementDescription
	viaBatch bool
	home     string
	// pipeline is used again and again.
	pipeline Pipeline
	// undescribed is true when pgx sends arguments without asking what they are to be.
	undescribed bool
	// secret is a copy of the key of cancel requests. ShieldCommit makes it.
	secret []byte
}

// connKey is where a connection's Conn is kept, for as long as it lives.
const connKey = "github.com/tooldedup/dedup conn"

// On returns the Conn of a connection.
func On(conn *pgx.Conn) *Conn {
	data := conn.PgConn().CustomData()
	if c, ok := data[connKey].(*Conn); ok {
		return c
	}
	config := conn.Config()
	c := &Conn{pgx: conn, home: HomeOf(config)}
	c.undescribed = config.DefaultQueryExecMode == pgx.QueryExecModeExec || config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
	switch {
	case config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol, config.Tracer != nil:
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

// txOf returns the pgx.Tx of a connection without beginning a transaction, which
// the library's own pipeline does. pgx makes one for every batch that would begin
// it, also for this one, which it refuses before anything is sent. It is used
// for one transaction after the other: only Commit and Rollback would end it, and
// neither reaches it through the guard. docs/upstream/pgx-tx-of-a-connection.md says what it
// relies on, and its test holds that.
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

// maxPrepared bounds what a server has to remember for a connection: programs may
// put values into the texts of their statements.
const maxPrepared = 1_000

// Prepare makes the server know queries by name, all that it does not know yet in
// one round trip.
func (c *Conn) Prepare(ctx context.Context, queries ...Query) error {
	if c.prepared == nil {
		return nil
	}
	var unknown []Query
	for _, q := range queries {
		if c.prepared[q.Name] == nil {
			unknown = append(unknown, q)
		}
	}
	if unknown == nil {
		return nil
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
		p.SendPrepare(q.Name, q.Text, nil)
	}
	err := p.Sync()
	var known []*pgconn.StatementDescription
	for err == nil && len(known) < len(unknown) {
		var got any
		got, err = p.GetResults()
		if sd, ok := got.(*pgconn.StatementDescription); ok {
			known = append(known, sd)
		}
	}
	for i, sd := range known { // also before one that failed: the server keeps them
		sd.Name, sd.SQL = unknown[i].Name, unknown[i].Text
		c.prepared[sd.Name] = sd
	}
	return cmp.Or(err, p.Close())
}

// Stale has a statement prepared anew before its next use: the types of its
// parameters were chosen when it was prepared, and may not fit the tables any more.
func (c *Conn) Stale(q Query) {
	if c.prepared[q.Name] != nil {
		c.prepared[q.Name] = nil
	}
}

// Renew has all statements prepared anew where an error says that what was prepared is gone or
// out of date. It is for connections that are not the library's to close.
func (c *Conn) Renew(err error) {
	if unusable(err) {
		c.Forget()
	}
}

// Forget has all statements prepared anew before their next use. Until then they are sent as
// texts.
func (c *Conn) Forget() {
	for name := range c.prepared {
		c.prepared[name] = nil
	}
}

// Knows reports whether the server has a statement prepared. It is true where nothing is
// to be prepared.
func (c *Conn) Knows(q Query) bool { return c.prepared == nil || c.prepared[q.Name] != nil }

// Prepared reports whether an earlier attempt has prepared a statement, or may have had pgx
// describe it.
func (c *Conn) Prepared(q Query) bool {
	return c.prepared[q.Name] != nil || c.pgx.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe
}

// unusable reports whether an error says that a connection is of no more use: it leads to a
// server that was demoted, or what was prepared on it is gone or out of date.
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

// DropUnusable closes a connection that an error says is of no more use, so that the pool
// makes a new one.
func DropUnusable(ctx context.Context, conn *pgx.Conn, err error) {
	if unusable(err) {
		_ = conn.Close(ctx)
	}
}

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

// Conn returns pgx's connection.
func (c *Conn) Conn() *pgx.Conn { return c.pgx }

// PgConn returns pgx's low-level connection.
func (c *Conn) PgConn() *pgconn.PgConn { return c.pgx.PgConn() }

// Home names the database that the connection was made to.
func (c *Conn) Home() string { return c.home }

// HomeOf names the database that a configuration leads to.
func HomeOf(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}

// Query is one SQL text of the library's own and the name that it is
// prepared under. Equal texts have equal names, so that Dedupers that share a
// connection share its statements.
type Query struct{ Text, Name string }

// NewQuery names a text.
func NewQuery(text string) Query {
	sum := sha256.Sum256([]byte(text))
	return Query{Text: text, Name: "tool_dedup_" + hex.EncodeToString(sum[:8])}
}

// Distinct returns each query once.
func Distinct(queries []Query) []Query {
	var once []Query
	known := make(map[string]bool, len(queries))
	for _, q := range queries {
		if !known[q.Name] {
			known[q.Name] = true
			once = append(once, q)
		}
	}
	return once
}

// Begin is how a transaction begins.
type Begin struct {
	Query
	options pgx.TxOptions
}

// NewBegin returns the beginning of a transaction at an isolation level.
func NewBegin(level pgx.TxIsoLevel) Begin {
	return Begin{NewQuery("begin isolation level " + string(level)), pgx.TxOptions{IsoLevel: level}}
}
