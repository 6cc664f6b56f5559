package dedup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// pipeline is a few statements that travel to the server in one round trip. The
// first that fails makes the server skip those behind it.
//
// Statements are queued, sent, and then answered in their order: by answers.exec
// or answers.scan, one call for each.
type pipeline struct {
	line    *line
	wire    pgconn.Batch
	batch   *pgx.Batch // where the line needs it
	answers answers

	// Room for the parameters of one statement, mostly.
	values  [16][]byte
	formats [16]int16
	room    [512]byte
}

// pipeline returns an empty pipeline. The one before it has been closed.
func (l *line) pipeline() *pipeline { return l.newPipeline(l.viaBatch) }

func (l *line) newPipeline(viaBatch bool) *pipeline {
	p := &l.own
	p.line, p.wire, p.batch, p.answers = l, pgconn.Batch{}, nil, answers{}
	if viaBatch {
		p.batch = &pgx.Batch{}
	}
	return p
}

// binaryResults asks for every column as the wire's own binary format.
var binaryResults = []int16{pgtype.BinaryFormatCode}

func (p *pipeline) queue(st query, params ...param) {
	if p.batch != nil {
		values := make([]any, len(params))
		for i := range params {
			values[i] = params[i].value()
		}
		p.batch.Queue(st.text, values...)
		return
	}
	values, formats := p.encode(p.values[:0], p.formats[:0], params)
	if sd := p.line.prepared[st.name]; sd != nil {
		p.wire.ExecStatement(sd, values, formats, binaryResults)
	} else {
		p.wire.ExecParams(st.text, values, nil, formats, binaryResults)
	}
}

// encode appends parameters as the wire has them.
func (p *pipeline) encode(values [][]byte, formats []int16, params []param) ([][]byte, []int16) {
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

// callersPipeline is for statements whose arguments are a caller's, of any type.
// Without a description of their parameters pgx must send them, which knows how
// to do without or where to get one.
func (l *line) callersPipeline() *pipeline {
	return l.newPipeline(l.prepared == nil)
}

// queueArgs queues such a statement, which has been prepared where the line
// prepares. The library's own parameters come after the caller's.
func (p *pipeline) queueArgs(q query, args []any, params ...param) error {
	if p.batch != nil {
		if p.line.undescribed {
			// What pgx cannot encode is told here, where it is certain that
			// nothing was sent: its batches do not tell in these modes.
			var b pgx.ExtendedQueryBuilder
			if err := b.Build(p.line.conn.TypeMap(), nil, args); err != nil {
				return err
			}
		}
		all := slices.Clip(args)
		for i := range params {
			all = append(all, params[i].value())
		}
		p.batch.Queue(q.text, all...)
		return nil
	}
	sd := p.line.prepared[q.name]
	values, formats := p.values[:0], p.formats[:0]
	if len(args) > 0 {
		var b pgx.ExtendedQueryBuilder
		callers := pgconn.StatementDescription{ParamOIDs: sd.ParamOIDs[:len(args)]}
		if err := b.Build(p.line.conn.TypeMap(), &callers, args); err != nil {
			return err
		}
		values, formats = append(values, b.ParamValues...), append(formats, b.ParamFormats...)
	}
	values, formats = p.encode(values, formats, params)
	p.wire.ExecStatement(sd, values, formats, binaryResults)
	return nil
}

// begin is how a transaction begins.
type begin struct {
	query
	options pgx.TxOptions
}

func newBegin(level pgx.TxIsoLevel) begin {
	return begin{newQuery("begin isolation level " + string(level)), pgx.TxOptions{IsoLevel: level}}
}

// queueBegin comes before every other statement.
func (p *pipeline) queueBegin(b *begin) {
	if p.batch != nil {
		p.batch.BeginTx(b.options)
		return
	}
	p.queue(b.query)
}

// uncancelled is ctx without its end. Its values are for tracers, which only
// pgx's batches know.
func (p *pipeline) uncancelled(ctx context.Context) context.Context {
	if p.batch != nil {
		return context.WithoutCancel(ctx)
	}
	return context.Background()
}

func (p *pipeline) send(ctx context.Context) *answers {
	a := &p.answers
	a.row.sentAt = time.Now()
	if p.batch != nil {
		a.batch = p.line.via.SendBatch(ctx, p.batch)
	} else {
		a.line, a.wire = p.line, p.line.conn.PgConn().ExecBatch(ctx, &p.wire)
	}
	return a
}

// answers are what a pipeline's statements are answered. They must be closed.
type answers struct {
	line  *line
	wire  *pgconn.MultiResultReader
	batch pgx.BatchResults
	// row is where a record is read to first.
	row recordRow
}

// tx is the transaction that the pipeline has begun.
func (a *answers) tx() pgx.Tx {
	if a.batch != nil {
		return a.batch.Tx()
	}
	return a.line.tx
}

// exec reads the answer of a statement that returns no rows, or whose rows do
// not matter.
func (a *answers) exec() (pgconn.CommandTag, error) {
	if a.batch != nil {
		return a.batch.Exec()
	}
	result, err := a.next()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return result.Close()
}

// scan reads the one row of a statement, as pgx.Row.Scan does: pgx.ErrNoRows
// tells that there is none. A dest of nil skips a column; a *[]byte is filled in
// place as far as it has room.
func (a *answers) scan(dest ...any) error {
	if a.batch != nil {
		return a.batch.QueryRow().Scan(append([]any(nil), dest...)...)
	}
	result, err := a.next()
	if err != nil {
		return err
	}
	found := result.NextRow()
	if found {
		err = scanRow(result.Values(), dest)
	}
	if _, closeErr := result.Close(); closeErr != nil {
		return closeErr
	}
	if err == nil && !found {
		return pgx.ErrNoRows
	}
	return err
}

// each reads the rows of a statement into dest, and calls do after each.
func (a *answers) each(dest []any, do func() error) error {
	if a.batch != nil {
		rows, err := a.batch.Query()
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, dest, do)
		return err
	}
	result, err := a.next()
	if err != nil {
		return err
	}
	for err == nil && result.NextRow() {
		if err = scanRow(result.Values(), dest); err == nil {
			err = do()
		}
	}
	_, closeErr := result.Close()
	return orElse(err, closeErr)
}

func (a *answers) next() (*pgconn.ResultReader, error) {
	if a.wire.NextResult() {
		return a.wire.ResultReader(), nil
	}
	if err := a.wire.Close(); err != nil {
		return nil, err
	}
	return nil, errors.New("dedup: the server has answered fewer statements than it was sent")
}

// close reads what is left up to the end of the pipeline and returns err, or the
// first error there is.
func (a *answers) close(err error) error {
	var closeErr error
	if a.batch != nil {
		closeErr = a.batch.Close()
	} else {
		closeErr = a.wire.Close()
	}
	a.row = recordRow{} // it may hold a long result
	return orElse(err, closeErr)
}

// scanRow reads the columns of the library's own statements from the wire's binary
// format.
func scanRow(values [][]byte, dest []any) error {
	if len(values) != len(dest) {
		return fmt.Errorf("dedup: the server has sent %d columns and not %d", len(values), len(dest))
	}
	for i, v := range values {
		if err := scanValue(v, dest[i]); err != nil {
			return fmt.Errorf("dedup: reading column %d: %w", i+1, err)
		}
	}
	return nil
}

func scanValue(v []byte, dest any) error {
	size := func(n int) error {
		if len(v) != n {
			return fmt.Errorf("%d bytes and not %d for %T", len(v), n, dest)
		}
		return nil
	}
	switch d := dest.(type) {
	case nil:
		return nil
	case *bool:
		if err := size(1); err != nil {
			return err
		}
		*d = v[0] != 0
	case *int64:
		if err := size(8); err != nil {
			return err
		}
		*d = int64(binary.BigEndian.Uint64(v))
	case *time.Time:
		if err := size(8); err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint64(v))
		if n == math.MaxInt64 || n == math.MinInt64 {
			return errors.New("an infinite time")
		}
		*d = time.UnixMicro(n + postgresEpoch)
	case *string:
		if v == nil {
			return errors.New("NULL for a string")
		}
		*d = string(v)
	case **string:
		*d = nil
		if v != nil {
			s := string(v)
			*d = &s
		}
	case *[]byte:
		if v == nil {
			*d = nil
		} else {
			*d = append((*d)[:0], v...)
		}
	default:
		return fmt.Errorf("%T cannot be read into", dest)
	}
	return nil
}

func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }
