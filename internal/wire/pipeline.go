package wire

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Pipeline is a few statements that take one round trip. If one fails, the server skips the rest.
//
// Statements are queued and sent, and their replies are read in order. After the first error,
// reading does nothing, and Close returns that error. Parameters and destinations are pointers, as
// in [pgx.Row.Scan], which saves allocations.
type Pipeline struct {
	conn  *Conn
	own   pgconn.Batch
	batch *pgx.Batch // replaces own on connections that use pgx's batches
	begun bool
	// traced is true if the pipeline reports to the connection's tracer itself, with its texts.
	traced bool
	texts  []string
	trace  context.Context //nolint:containedctx // lives until the pipeline is closed
	// ignored is true for each statement whose reply is not read.
	ignored []bool

	// SentAt is the time at which the pipeline was sent, by this machine's clock.
	SentAt       time.Time
	results      *pgconn.MultiResultReader
	batchResults pgx.BatchResults
	succeeded    int
	err          error

	// Room for the parameters of one statement, for the destinations of a row, and usually for
	// ignored.
	values  [16][]byte
	formats [16]int16
	room    [512]byte
	columns [8]any
	flags   [8]bool
}

// Pipeline returns an empty pipeline. The previous one must be closed.
func (c *Conn) Pipeline() *Pipeline { return c.newPipeline(c.viaBatch) }

// CallersPipeline returns an empty pipeline for statements with a caller's arguments, of any type.
// On a connection that does not prepare statements, pgx's batches send them.
func (c *Conn) CallersPipeline() *Pipeline { return c.newPipeline(c.prepared == nil) }

// LimitedPipeline returns an empty pipeline for statements with arguments of any type, of which one
// sets a lock_timeout for those behind it. pgx's batches would prepare or describe all statements
// first, which waits for locks without that limit. Tracers see the pipeline as one query.
func (c *Conn) LimitedPipeline() *Pipeline {
	p := c.newPipeline(c.simple)
	p.traced = c.tracer != nil && !c.simple
	return p
}

func (c *Conn) newPipeline(viaBatch bool) *Pipeline {
	p := &c.pipeline
	p.conn, p.own, p.batch, p.ignored = c, pgconn.Batch{}, nil, p.flags[:0]
	p.traced, p.texts = false, nil
	p.begun, p.results, p.batchResults, p.succeeded, p.err = false, nil, nil, 0, nil
	if viaBatch {
		p.batch = &pgx.Batch{}
	}
	return p
}

// binaryResults asks for every column in the binary format.
var binaryResults = []int16{pgtype.BinaryFormatCode}

// Queue queues a statement of the library.
func (p *Pipeline) Queue(q Query, params ...any) {
	p.add(q)
	if p.batch != nil {
		p.batch.Queue(q.Text, plainValues(nil, params)...)
		return
	}
	p.queue(q, params)
}

// add counts a statement.
func (p *Pipeline) add(q Query) {
	p.ignored = append(p.ignored, false)
	if p.traced {
		p.texts = append(p.texts, q.Text)
	}
}

// Ignore queues a statement whose reply only matters if it is an error.
func (p *Pipeline) Ignore(q Query, params ...any) {
	p.Queue(q, params...)
	p.ignored[len(p.ignored)-1] = true
}

// Begin queues BEGIN, before every other statement.
func (p *Pipeline) Begin(b *Begin) {
	p.begun = true
	if p.batch == nil {
		p.Ignore(b.Query)
		return
	}
	p.ignored = append(p.ignored, true)
	p.batch.BeginTx(b.options)
}

// QueueArgs queues a statement with arguments of any type, in a pipeline of [Conn.CallersPipeline]
// or [Conn.LimitedPipeline]. In the first, if the connection prepares, the statement must be
// prepared. An error means that the arguments cannot be encoded.
func (p *Pipeline) QueueArgs(q Query, args []any) error {
	p.add(q)
	var b pgx.ExtendedQueryBuilder
	sd := p.conn.prepared[q.Name]
	if p.batch == nil || p.conn.undescribed {
		// Without a description, pgx's batches do not report arguments that they cannot encode.
		// Here nothing was sent yet.
		if err := b.Build(p.conn.pgx.TypeMap(), sd, args); err != nil {
			return unsent{err}
		}
	}
	switch {
	case p.batch != nil:
		p.batch.Queue(q.Text, args...)
	case sd != nil:
		p.own.ExecStatement(sd, b.ParamValues, b.ParamFormats, b.ResultFormats)
	default:
		p.own.ExecParams(q.Text, b.ParamValues, nil, b.ParamFormats, b.ResultFormats)
	}
	return nil
}

// queue queues a statement of the library in own.
func (p *Pipeline) queue(q Query, params []any) {
	values, formats := appendParams(p.room[:0], p.values[:0], p.formats[:0], params)
	if sd := p.conn.prepared[q.Name]; sd != nil {
		p.own.ExecStatement(sd, values, formats, binaryResults)
	} else {
		p.own.ExecParams(q.Text, values, nil, formats, binaryResults)
	}
}

// Send sends the queued statements. The pipeline must be closed afterwards.
func (p *Pipeline) Send(ctx context.Context) {
	p.SentAt = time.Now()
	if p.traced {
		ctx = p.conn.tracer.TraceQueryStart(ctx, p.conn.pgx, pgx.TraceQueryStartData{SQL: strings.Join(p.texts, ";\n")})
		p.trace = ctx
	}
	if p.batch != nil {
		p.batchResults = p.conn.pgx.SendBatch(ctx, p.batch)
	} else {
		p.results = p.conn.pgx.PgConn().ExecBatch(ctx, &p.own)
	}
}

// SendUncancelled is Send for a COMMIT, whose reply Commit reads. Neither the end of ctx nor a
// cancel request interrupts it. Tracers of pgx's batches get the values of ctx.
func (p *Pipeline) SendUncancelled(ctx context.Context) {
	p.conn.shield()
	if p.batch != nil {
		p.Send(context.WithoutCancel(ctx))
	} else {
		p.Send(context.Background())
	}
}

// Tx returns the transaction that the pipeline began, or nil.
func (p *Pipeline) Tx() pgx.Tx {
	switch {
	case !p.begun:
		return nil
	case p.batch != nil:
		return p.batchResults.Tx()
	}
	return p.conn.tx
}

// Succeeded returns the number of replies that were read without an error.
func (p *Pipeline) Succeeded() int { return p.succeeded }

// Failed reports whether a reply was an error.
func (p *Pipeline) Failed() bool { return p.err != nil }

// next skips to the reply to the next statement that is not ignored, or to the end.
func (p *Pipeline) next() bool {
	for p.err == nil && p.succeeded < len(p.ignored) && p.ignored[p.succeeded] {
		p.read(nil, nil)
	}
	return p.err == nil
}

// Exec reads the reply to a statement without its rows.
func (p *Pipeline) Exec() (tag pgconn.CommandTag) {
	if p.next() {
		tag, _ = p.read(nil, nil)
	}
	return tag
}

// Scan reads the only row of a statement and reports whether there is one. A nil dest skips a
// column.
func (p *Pipeline) Scan(dest ...any) (found bool) {
	if !p.next() {
		return false
	}
	columns := append(p.columns[:0], dest...) // so that dest need not be allocated
	_, rows := p.read(columns, nil)
	clear(columns)
	return rows > 0 && p.err == nil
}

// Each reads the rows of a statement into dest and calls do after each.
func (p *Pipeline) Each(dest []any, do func() error) {
	if p.next() {
		p.read(dest, do)
	}
}

// Rows passes the rows of a caller's statement to read.
func (p *Pipeline) Rows(read func(pgx.Rows) error) {
	if !p.next() {
		return
	}
	var rows pgx.Rows
	switch {
	case p.batch != nil:
		rows, p.err = p.batchResults.Query()
	case p.results.NextResult():
		rows = pgx.RowsFromResultReader(p.conn.pgx.TypeMap(), p.results.ResultReader())
	default:
		p.err = cmp.Or(p.results.Close(), errMissingReply)
	}
	if p.err == nil {
		err := read(rows)
		rows.Close()
		p.err = cmp.Or(err, rows.Err())
	}
	if p.err == nil {
		p.succeeded++
	}
}

// read reads the next reply: its rows, if dest is not nil, and its tag.
func (p *Pipeline) read(dest []any, do func() error) (tag pgconn.CommandTag, rows int) {
	switch {
	case p.batch == nil:
		tag, rows, p.err = p.readOwn(dest, do)
	case dest == nil:
		tag, p.err = p.batchResults.Exec()
	default:
		tag, rows, p.err = p.readBatch(dest, do)
	}
	if p.err == nil {
		p.succeeded++
	}
	return tag, rows
}

var errMissingReply = errors.New("dedup: the server answered fewer statements than were sent")

func (p *Pipeline) readOwn(dest []any, do func() error) (tag pgconn.CommandTag, rows int, err error) {
	if !p.results.NextResult() {
		return tag, 0, cmp.Or(p.results.Close(), errMissingReply)
	}
	r := p.results.ResultReader()
	for dest != nil && err == nil && r.NextRow() {
		rows++
		if err = scanRow(r.Values(), dest); err == nil && do != nil {
			err = do()
		}
	}
	tag, closed := r.Close()
	return tag, rows, cmp.Or(err, closed)
}

func (p *Pipeline) readBatch(dest []any, do func() error) (tag pgconn.CommandTag, rows int, err error) {
	all, err := p.batchResults.Query()
	if err != nil {
		return tag, 0, err
	}
	tag, err = pgx.ForEachRow(all, pgxDests(dest), func() error {
		rows++
		if do != nil {
			return do()
		}
		return nil
	})
	return tag, rows, err
}

// Close reads the remaining replies and returns the first error.
func (p *Pipeline) Close() error {
	p.next()
	var err error
	if p.batch != nil {
		err = p.batchResults.Close()
	} else {
		err = p.results.Close()
	}
	p.err = cmp.Or(p.err, err)
	if p.traced {
		p.conn.tracer.TraceQueryEnd(p.trace, p.conn.pgx, pgx.TraceQueryEndData{Err: p.err})
		p.trace = nil
	}
	return p.err
}

// postgresEpoch is 2000-01-01, the zero time of Postgres, in microseconds of Unix time.
const postgresEpoch = 946_684_800_000_000

// appendParams appends parameters in the format of the protocol. Their bytes go into room if they
// fit.
func appendParams(room []byte, values [][]byte, formats []int16, params []any) ([][]byte, []int16) {
	for _, param := range params {
		start, format, null := len(room), int16(0), false
		room, format, null = appendParam(room, param)
		value := room[start:len(room):len(room)]
		if null {
			value = nil
		}
		values, formats = append(values, value), append(formats, format)
	}
	return values, formats
}

// appendParam appends a parameter in the format of the protocol.
func appendParam(b []byte, param any) (_ []byte, format int16, null bool) {
	switch v := param.(type) {
	case nil:
		return b, pgtype.TextFormatCode, true
	case *string:
		return append(b, *v...), pgtype.TextFormatCode, false
	case *[]byte:
		return append(b, *v...), pgtype.BinaryFormatCode, *v == nil
	case *[32]byte:
		return append(b, v[:]...), pgtype.BinaryFormatCode, false
	case *int64:
		return appendInt64(b, *v), pgtype.BinaryFormatCode, false
	case *time.Time:
		return appendInt64(b, v.UnixMicro()-postgresEpoch), pgtype.BinaryFormatCode, false
	case *time.Duration: // an interval: microseconds, days, months
		return appendInt64(appendInt64(b, v.Microseconds()), 0), pgtype.BinaryFormatCode, false
	case []string:
		b = appendArray(b, len(v), pgtype.TextOID)
		for _, s := range v {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		return b, pgtype.BinaryFormatCode, false
	case []*string:
		b = appendArray(b, len(v), pgtype.TextOID)
		for _, s := range v {
			if s == nil {
				b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // NULL
				continue
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(*s))), *s...)
		}
		return b, pgtype.BinaryFormatCode, false
	case [][]byte:
		b = appendArray(b, len(v), pgtype.ByteaOID)
		for _, s := range v {
			if s == nil {
				b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // NULL
				continue
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		return b, pgtype.BinaryFormatCode, false
	case []int64:
		b = appendArray(b, len(v), pgtype.Int8OID)
		for _, n := range v {
			b = appendInt64(binary.BigEndian.AppendUint32(b, 8), n)
		}
		return b, pgtype.BinaryFormatCode, false
	default:
		panic(fmt.Sprintf("dedup: %T cannot be a parameter", param))
	}
}

// plainValues appends parameters as values for pgx.
func plainValues(values, params []any) []any {
	for _, param := range params {
		switch v := param.(type) {
		case *string:
			param = *v
		case *[]byte:
			param = *v
		case *[32]byte:
			param = v[:]
		case *int64:
			param = *v
		case *time.Time: // programs may send a time.Time as another type
			param = pgtype.Timestamptz{Time: *v, Valid: true}
		case *time.Duration:
			param = pgtype.Interval{Microseconds: v.Microseconds(), Valid: true}
		case []string: // nil would be NULL
			param = append([]string{}, v...)
		case []int64:
			param = append([]int64{}, v...)
		}
		values = append(values, param)
	}
	return values
}

// appendArray appends the header of an array of n elements.
func appendArray(b []byte, n int, element uint32) []byte {
	dimensions := min(n, 1) // an empty array has none
	for _, header := range [...]uint32{uint32(dimensions), 0, element} {
		b = binary.BigEndian.AppendUint32(b, header)
	}
	if n > 0 { // the length, and the index of the first element
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(n)), 1)
	}
	return b
}

func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

// pgxDests returns destinations for pgx.
func pgxDests(dest []any) []any {
	dest = slices.Clone(dest)
	for i, d := range dest {
		switch d := d.(type) {
		case *[32]byte:
			dest[i] = (*sum)(d)
		case *[]byte:
			dest[i] = (*digits)(d)
		case *time.Time:
			dest[i] = (*micros)(d)
		}
	}
	return dest
}

// scanRow decodes the columns of a row from the binary format. A time is a number and a bytea is
// text there, as in [Times] and [Digits].
func scanRow(values [][]byte, dest []any) error {
	if len(values) != len(dest) {
		return fmt.Errorf("dedup: the server sent %d columns, and the statement has %d", len(values), len(dest))
	}
	for i, v := range values {
		if err := scanValue(v, dest[i]); err != nil {
			return fmt.Errorf("dedup: reading column %d: %w", i+1, err)
		}
	}
	return nil
}

func scanValue(v []byte, dest any) error {
	size := len(v)
	switch d := dest.(type) {
	case nil:
		return nil
	case *bool:
		if size == 1 {
			*d = v[0] != 0
			return nil
		}
	case *int64:
		if size == 8 {
			*d = int64(binary.BigEndian.Uint64(v))
			return nil
		}
	case *time.Time:
		if size == 8 {
			*d = time.UnixMicro(int64(binary.BigEndian.Uint64(v)))
			return nil
		}
	case *string:
		if v != nil {
			*d = string(v)
			return nil
		}
	case *pgtype.Text:
		*d = pgtype.Text{String: string(v), Valid: v != nil}
		return nil
	case *[]byte:
		return (*digits)(d).scan(v)
	case *[32]byte:
		return (*sum)(d).scan(v)
	}
	return fmt.Errorf("%d bytes for %T", size, dest)
}
