package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Pipeline is a few statements that travel to the server in one round trip. The first that
// fails makes the server skip those behind it.
//
// Statements are queued, sent, and their answers read in order. The first error stays, and
// what is read after it does nothing: Close returns it. Parameters and destinations are
// pointers, as those of [pgx.Row.Scan] are, which costs no allocation.
type Pipeline struct {
	conn  *Conn
	own   pgconn.Batch
	batch *pgx.Batch // in place of own, where the connection needs it
	begun bool
	// ignored says of each statement whether its answer is not read.
	ignored []bool

	// SentAt is when the pipeline was sent, by this machine's clock.
	SentAt       time.Time
	results      *pgconn.MultiResultReader
	batchResults pgx.BatchResults
	answered     int
	err          error

	// Room for the parameters of one statement, and for ignored, mostly.
	values  [16][]byte
	formats [16]int16
	room    [512]byte
	flags   [8]bool
}

// Pipeline returns an empty pipeline. The one before it has been closed.
func (c *Conn) Pipeline() *Pipeline { return c.newPipeline(c.viaBatch) }

// CallersPipeline is for statements whose arguments are a caller's, of any type. Without a
// description of their parameters pgx must send them, which knows how to do without or
// where to get one.
func (c *Conn) CallersPipeline() *Pipeline { return c.newPipeline(c.prepared == nil) }

func (c *Conn) newPipeline(viaBatch bool) *Pipeline {
	p := &c.pipeline
	p.conn, p.own, p.batch, p.ignored = c, pgconn.Batch{}, nil, p.flags[:0]
	p.begun, p.results, p.batchResults, p.answered, p.err = false, nil, nil, 0, nil
	if viaBatch {
		p.batch = &pgx.Batch{}
	}
	return p
}

// binaryResults asks for every column in the binary format.
var binaryResults = []int16{pgtype.BinaryFormatCode}

// Queue queues a statement of the library's own.
func (p *Pipeline) Queue(q Query, params ...any) {
	p.ignored = append(p.ignored, false)
	if p.batch != nil {
		p.batch.Queue(q.Text, plainValues(nil, params)...)
		return
	}
	p.queue(q, p.values[:0], p.formats[:0], params)
}

// Ignore queues a statement of whose answer only an error matters.
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

// QueueArgs queues a statement of a [Conn.CallersPipeline], which has been prepared where the
// connection prepares. The library's own parameters come after the caller's.
func (p *Pipeline) QueueArgs(q Query, args []any, params ...any) error {
	p.ignored = append(p.ignored, false)
	if p.batch != nil {
		if p.conn.undescribed {
			// pgx's batches do not report what they cannot encode in these modes.
			// Here it is certain that nothing was sent.
			var b pgx.ExtendedQueryBuilder
			if err := b.Build(p.conn.pgx.TypeMap(), nil, args); err != nil {
				return err
			}
		}
		p.batch.Queue(q.Text, plainValues(slices.Clip(args), params)...)
		return nil
	}
	values, formats := p.values[:0], p.formats[:0]
	if len(args) > 0 {
		var b pgx.ExtendedQueryBuilder
		callers := pgconn.StatementDescription{ParamOIDs: p.conn.prepared[q.Name].ParamOIDs[:len(args)]}
		if err := b.Build(p.conn.pgx.TypeMap(), &callers, args); err != nil {
			return err
		}
		values, formats = append(values, b.ParamValues...), append(formats, b.ParamFormats...)
	}
	p.queue(q, values, formats, params)
	return nil
}

// queue queues a statement with parameters behind those that are encoded already.
func (p *Pipeline) queue(q Query, values [][]byte, formats []int16, params []any) {
	values, formats = appendParams(p.room[:0], values, formats, params)
	if sd := p.conn.prepared[q.Name]; sd != nil {
		p.own.ExecStatement(sd, values, formats, binaryResults)
	} else {
		p.own.ExecParams(q.Text, values, nil, formats, binaryResults)
	}
}

// Send sends what is queued. The pipeline must be closed.
func (p *Pipeline) Send(ctx context.Context) {
	p.SentAt = time.Now()
	if p.batch != nil {
		p.batchResults = p.conn.pgx.SendBatch(ctx, p.batch)
	} else {
		p.results = p.conn.pgx.PgConn().ExecBatch(ctx, &p.own)
	}
}

// SendUncancelled is Send for a COMMIT, which the end of ctx must not cut. Its values are for
// tracers, which only pgx's batches know.
func (p *Pipeline) SendUncancelled(ctx context.Context) {
	if p.batch != nil {
		p.Send(context.WithoutCancel(ctx))
	} else {
		p.Send(context.Background())
	}
}

// Tx is the transaction that the pipeline has begun, nil where it has begun none.
func (p *Pipeline) Tx() pgx.Tx {
	switch {
	case !p.begun:
		return nil
	case p.batch != nil:
		return p.batchResults.Tx()
	}
	return p.conn.tx
}

// Answered is how many statements the server has answered without an error.
func (p *Pipeline) Answered() int { return p.answered }

// Failed reports whether an answer was an error.
func (p *Pipeline) Failed() bool { return p.err != nil }

// next goes to the answer of the next statement that is not ignored, or to the end.
func (p *Pipeline) next() bool {
	for p.err == nil && p.answered < len(p.ignored) && p.ignored[p.answered] {
		p.exec()
	}
	return p.err == nil
}

// Exec reads the answer of a statement whose rows do not matter.
func (p *Pipeline) Exec() (tag pgconn.CommandTag) {
	if p.next() {
		tag = p.exec()
	}
	return tag
}

func (p *Pipeline) exec() (tag pgconn.CommandTag) {
	if p.batch != nil {
		tag, p.err = p.batchResults.Exec()
	} else if r := p.reader(); r != nil {
		tag, p.err = r.Close()
	}
	if p.err == nil {
		p.answered++
	}
	return tag
}

// Scan reads the one row of a statement and reports whether there was one. A dest of nil
// skips a column.
func (p *Pipeline) Scan(dest ...any) (found bool) {
	if !p.next() {
		return false
	}
	if p.batch != nil {
		err := p.batchResults.QueryRow().Scan(pgxDests(dest)...)
		if found = err == nil; !errors.Is(err, pgx.ErrNoRows) {
			p.err = err
		}
	} else if r := p.reader(); r != nil {
		var err error
		if found = r.NextRow(); found {
			err = scanRow(r.Values(), dest)
		}
		_, closeErr := r.Close()
		p.err = cmp.Or(closeErr, err)
	}
	if p.err == nil {
		p.answered++
	}
	return found && p.err == nil
}

// Each reads the rows of a statement into dest, and calls do after each.
func (p *Pipeline) Each(dest []any, do func() error) {
	if !p.next() {
		return
	}
	if p.batch != nil {
		var rows pgx.Rows
		if rows, p.err = p.batchResults.Query(); p.err == nil {
			_, p.err = pgx.ForEachRow(rows, pgxDests(dest), do)
		}
	} else if r := p.reader(); r != nil {
		var err error
		for err == nil && r.NextRow() {
			if err = scanRow(r.Values(), dest); err == nil {
				err = do()
			}
		}
		_, closeErr := r.Close()
		p.err = cmp.Or(err, closeErr)
	}
	if p.err == nil {
		p.answered++
	}
}

// reader reads the next answer; it is nil where there is none.
func (p *Pipeline) reader() *pgconn.ResultReader {
	if p.results.NextResult() {
		return p.results.ResultReader()
	}
	p.err = cmp.Or(p.results.Close(), errors.New("dedup: the server has answered fewer statements than it was sent"))
	return nil
}

// Close reads what is left up to the end of the pipeline and returns the first error.
func (p *Pipeline) Close() error {
	p.next()
	var err error
	if p.batch != nil {
		err = p.batchResults.Close()
	} else {
		err = p.results.Close()
	}
	p.err = cmp.Or(p.err, err)
	return p.err
}

// Commit reads the answer to COMMIT, which ends the pipeline, and closes it.
func (p *Pipeline) Commit(pg *pgconn.PgConn) (Outcome, error) {
	tag := p.Exec()
	before := p.err != nil && p.answered < len(p.ignored)-1
	err := p.Close()
	outcome := OutcomeOfCommit(pg, tag, err, before)
	if err == nil && outcome != Committed {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return outcome, err
}

// End closes a pipeline of statements that are a transaction of their own.
func (p *Pipeline) End(pg *pgconn.PgConn) (Outcome, error) {
	before := p.err != nil
	err := p.Close() // reads to the end, which is where the server has committed
	return OutcomeOfStatement(pg, err, before), err
}
