package dedup

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// line is where the library's own statements travel: a connection of the pool,
// or the transaction of a caller, which only pgx's batches can reach.
//
// On a connection they are written with pgconn, because pgx.Batch costs some
// thirty allocations a statement (measured: 100 of the 166 of a first call). Two
// kinds of connections are left to pgx's batches: those in simple_protocol, whose
// quoting of parameters is pgx's own, and those with a tracer, which would not
// see the statements otherwise.
type line struct {
	via sender

	// The rest is for a connection.

	conn *pgx.Conn
	tx   pgx.Tx // of pgx, for the effect; nil where pgx's batches make it
	// prepared are the statements that the server knows by name; nil where
	// nothing is to be prepared. One that is out of date is nil.
	prepared map[string]*pgconn.StatementDescription
	viaBatch bool
	// own is used for one pipeline after the other.
	own pipeline
	// undescribed tells that pgx sends arguments without asking what they are to be.
	undescribed bool
}

// sender is what pgx's batches are sent on: a connection or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// lineKey is where a connection's line is kept, for as long as it lives.
const lineKey = "github.com/tooldedup/dedup line"

func lineOf(conn *pgx.Conn) *line {
	data := conn.PgConn().CustomData()
	if l, ok := data[lineKey].(*line); ok {
		return l
	}
	l := &line{via: conn, conn: conn}
	config := conn.Config()
	l.undescribed = config.DefaultQueryExecMode == pgx.QueryExecModeExec || config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
	switch {
	case config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol, config.Tracer != nil:
		l.viaBatch = true
	case config.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement:
		l.prepared = make(map[string]*pgconn.StatementDescription)
	}
	if !l.viaBatch {
		l.tx = txOf(conn)
	}
	data[lineKey] = l
	return l
}

// txLine is the line of a caller's transaction.
func txLine(tx pgx.Tx) *line { return &line{via: tx, viaBatch: true} }

// txOf returns the pgx.Tx of a connection without beginning a transaction, which
// the library's own pipeline does. pgx makes one for every batch that would begin
// it, also for this one, which it refuses before anything is sent. It is used
// for one transaction after the other: only Commit and Rollback would end it, and
// neither reaches it through the guard.
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

// prepare makes the server know queries by name, all that it does not know yet in
// one round trip.
func (l *line) prepare(ctx context.Context, queries ...query) error {
	if l.prepared == nil {
		return nil
	}
	var unknown []query
	for _, q := range queries {
		if l.prepared[q.name] == nil {
			unknown = append(unknown, q)
		}
	}
	if unknown == nil {
		return nil
	}
	p := l.conn.PgConn().StartPipeline(ctx)
	if len(l.prepared) > maxPrepared {
		for name := range l.prepared {
			p.SendDeallocate(name)
		}
		clear(l.prepared)
		unknown = queries
	}
	for _, q := range unknown {
		if _, outdated := l.prepared[q.name]; outdated {
			p.SendDeallocate(q.name)
		}
		p.SendPrepare(q.name, q.text, nil)
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
		sd.Name, sd.SQL = unknown[i].name, unknown[i].text
		l.prepared[sd.Name] = sd
	}
	return orElse(err, p.Close())
}

// outdate has a statement prepared anew before it is used again: the types of its
// parameters, which were chosen when it was prepared, may not fit the tables any
// more.
func (l *line) outdate(q query) {
	if l.prepared[q.name] != nil {
		l.prepared[q.name] = nil
	}
}

// outdateAfter is outdate after an error that types which do not fit may have
// caused: any but a record that is there, which is what most of them are.
func (l *line) outdateAfter(q query, err error) {
	var server *pgconn.PgError
	if errors.As(err, &server) && (server.Code == codeUniqueViolation ||
		server.Code == codeInvalidText && strings.Contains(server.Message, gateMark)) {
		return
	}
	l.outdate(q)
}

// spoiled tells whether an error says that a connection is of no more use: it
// leads to a server that was demoted, or what was prepared on it is gone or out
// of date.
func spoiled(err error) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case codeReadOnly, codePreparedMissing, codePreparedExists:
		return true
	}
	return isStalePlan(server)
}

// dropSpoiled closes such a connection, so that the pool makes a new one.
func dropSpoiled(ctx context.Context, conn *pgx.Conn, err error) {
	if spoiled(err) {
		_ = conn.Close(ctx)
	}
}
