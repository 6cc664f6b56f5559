package wire

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Pipeline is a few statements that travel to the server in one round trip. The
// first that fails makes the server skip those behind it.
//
// Statements are queued, sent, and then read in their order, by one call of
// [Results.Exec], [Results.Scan] or [Results.Each] for each.
type Pipeline struct {
	conn    *Conn
	wire    pgconn.Batch
	batch   *pgx.Batch // instead of wire, where the connection needs it
	results Results

	// Room for the parameters of one statement, mostly.
	values  [16][]byte
	formats [16]int16
	room    [512]byte
}

// Pipeline returns an empty pipeline. The one before it has been closed.
func (c *Conn) Pipeline() *Pipeline { return c.newPipeline(c.viaBatch) }

func (c *Conn) newPipeline(viaBatch bool) *Pipeline {
	p := &c.own
	p.conn, p.wire, p.batch, p.results = c, pgconn.Batch{}, nil, Results{}
	if viaBatch {
		p.batch = &pgx.Batch{}
	}
	return p
}

// binaryResults asks for every column as the wire's own binary format.
var binaryResults = []int16{pgtype.BinaryFormatCode}

// Queue queues a statement of the library's own.
func (p *Pipeline) Queue(st Query, params ...Param) {
	if p.batch != nil {
		values := make([]any, len(params))
		for i := range params {
			values[i] = params[i].value()
		}
		p.batch.Queue(st.Text, values...)
		return
	}
	values, formats := p.encode(p.values[:0], p.formats[:0], params)
	if sd := p.conn.prepared[st.Name]; sd != nil {
		p.wire.ExecStatement(sd, values, formats, binaryResults)
	} else {
		p.wire.ExecParams(st.Text, values, nil, formats, binaryResults)
	}
}

// encode appends parameters as the wire has them.
func (p *Pipeline) encode(values [][]byte, formats []int16, params []Param) ([][]byte, []int16) {
	room := p.room[:0]
	for i := range params {
		start, format := len(room), int16(0)
		room, format = params[i].append(room)
		value := room[start:len(room):len(room)]
		if params[i].kind == paramNull {
			value = nil
		}
		values, formats = append(values, value), append(formats, format)
	}
	return values, formats
}

// CallersPipeline is for statements whose arguments are a caller's, of any type.
// Without a description of their parameters pgx must send them, which knows how
// to do without or where to get one.
func (c *Conn) CallersPipeline() *Pipeline {
	return c.newPipeline(c.prepared == nil)
}

// QueueArgs queues a statement of a [Conn.CallersPipeline]. It has been prepared where
// the connection prepares. The library's own parameters come after the caller's.
func (p *Pipeline) QueueArgs(q Query, args []any, params ...Param) error {
	if p.batch != nil {
		if p.conn.undescribed {
			// pgx's batches do not report what they cannot encode in these modes.
			// Here it is certain that nothing was sent.
			var b pgx.ExtendedQueryBuilder
			if err := b.Build(p.conn.pgx.TypeMap(), nil, args); err != nil {
				return err
			}
		}
		all := slices.Clip(args)
		for i := range params {
			all = append(all, params[i].value())
		}
		p.batch.Queue(q.Text, all...)
		return nil
	}
	sd := p.conn.prepared[q.Name]
	values, formats := p.values[:0], p.formats[:0]
	if len(args) > 0 {
		var b pgx.ExtendedQueryBuilder
		callers := pgconn.StatementDescription{ParamOIDs: sd.ParamOIDs[:len(args)]}
		if err := b.Build(p.conn.pgx.TypeMap(), &callers, args); err != nil {
			return err
		}
		values, formats = append(values, b.ParamValues...), append(formats, b.ParamFormats...)
	}
	values, formats = p.encode(values, formats, params)
	p.wire.ExecStatement(sd, values, formats, binaryResults)
	return nil
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

// QueueBegin queues BEGIN, before every other statement.
func (p *Pipeline) QueueBegin(b *Begin) {
	if p.batch != nil {
		p.batch.BeginTx(b.options)
		return
	}
	p.Queue(b.Query)
}

// Uncancelled is ctx without its end. Its values are for tracers, which only
// pgx's batches know.
func (p *Pipeline) Uncancelled(ctx context.Context) context.Context {
	if p.batch != nil {
		return context.WithoutCancel(ctx)
	}
	return context.Background()
}

// Send sends what is queued. The results must be closed.
func (p *Pipeline) Send(ctx context.Context) *Results {
	a := &p.results
	a.SentAt = time.Now()
	if p.batch != nil {
		a.batch = p.conn.via.SendBatch(ctx, p.batch)
	} else {
		a.conn, a.wire = p.conn, p.conn.pgx.PgConn().ExecBatch(ctx, &p.wire)
	}
	return a
}
