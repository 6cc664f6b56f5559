package wire

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conn is where the library's own statements travel: a connection of the pool,
// or the transaction of a caller, which only pgx's batches can reach.
//
// On a connection they are written with pgconn, because pgx.Batch costs some
// thirty allocations a statement (measured: 100 of the 166 of a first call). Two
// kinds of connections are left to pgx's batches: those in simple_protocol, whose
// quoting of parameters is pgx's own, and those with a tracer, which would not
// see the statements otherwise.
type Conn struct {
	via sender

	// The rest is nil for a caller's transaction.

	pgx *pgx.Conn
	tx  pgx.Tx // of pgx, for the effect; nil where pgx's batches make it
	// prepared are the statements that the server knows by name; nil where
	// nothing is to be prepared. One that is out of date is nil.
	prepared map[string]*pgconn.StatementDescription
	viaBatch bool
	// own is used for one pipeline after the other.
	own Pipeline
	// undescribed is true when pgx sends arguments without asking what they are to be.
	undescribed bool
}

// sender is what pgx's batches are sent on: a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// connKey is where a connection's Conn is kept, for as long as it lives.
const connKey = "github.com/tooldedup/dedup conn"

// On returns the Conn of a connection.
func On(conn *pgx.Conn) *Conn {
	data := conn.PgConn().CustomData()
	if c, ok := data[connKey].(*Conn); ok {
		return c
	}
	c := &Conn{via: conn, pgx: conn}
	config := conn.Config()
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

// In returns a Conn for a caller's transaction.
func In(tx pgx.Tx) *Conn { return &Conn{via: tx, viaBatch: true} }

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

// Knows reports whether the server has a statement prepared. It is true where nothing is
// to be prepared.
func (c *Conn) Knows(q Query) bool { return c.prepared == nil || c.prepared[q.Name] != nil }

// Prepared reports whether an earlier attempt has prepared a statement.
func (c *Conn) Prepared(q Query) bool { return c.prepared[q.Name] != nil }

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
