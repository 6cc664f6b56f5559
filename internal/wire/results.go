package wire

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Results are the server's answers to a pipeline. They must be closed.
type Results struct {
	conn  *Conn
	wire  *pgconn.MultiResultReader
	batch pgx.BatchResults
	// SentAt is when the pipeline was sent, by this machine's clock.
	SentAt time.Time
	// Room is where rows are scanned to.
	Room Room
}

// Room has places to scan columns to. What is scanned to lies on the heap; these places
// live as long as their connection and are used again and again.
type Room struct {
	Bytes [2][]byte
	Text  string
	Maybe *string
	Times [4]time.Time
	Bool  bool
	Int   int64
	Dest  [9]any
}

// Tx is the transaction that the pipeline has begun.
func (r *Results) Tx() pgx.Tx {
	if r.batch != nil {
		return r.batch.Tx()
	}
	return r.conn.tx
}

// Exec reads the answer of a statement that returns no rows, or whose rows do
// not matter.
func (r *Results) Exec() (pgconn.CommandTag, error) {
	if r.batch != nil {
		return r.batch.Exec()
	}
	result, err := r.next()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return result.Close()
}

// Scan reads the one row of a statement, as pgx.Row.Scan does: pgx.ErrNoRows
// says that there is none. A dest of nil skips a column; a *[]byte is filled in
// place as far as it has room.
func (r *Results) Scan(dest ...any) error {
	if r.batch != nil {
		return r.batch.QueryRow().Scan(append([]any(nil), dest...)...)
	}
	result, err := r.next()
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

// Each reads the rows of a statement into dest, and calls do after each.
func (r *Results) Each(dest []any, do func() error) error {
	if r.batch != nil {
		rows, err := r.batch.Query()
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, dest, do)
		return err
	}
	result, err := r.next()
	if err != nil {
		return err
	}
	for err == nil && result.NextRow() {
		if err = scanRow(result.Values(), dest); err == nil {
			err = do()
		}
	}
	_, closeErr := result.Close()
	return cmp.Or(err, closeErr)
}

func (r *Results) next() (*pgconn.ResultReader, error) {
	if r.wire.NextResult() {
		return r.wire.ResultReader(), nil
	}
	if err := r.wire.Close(); err != nil {
		return nil, err
	}
	return nil, errors.New("dedup: the server has answered fewer statements than it was sent")
}

// Close reads what is left up to the end of the pipeline and returns err, or the
// first error there is.
func (r *Results) Close(err error) error {
	var closeErr error
	if r.batch != nil {
		closeErr = r.batch.Close()
	} else {
		closeErr = r.wire.Close()
	}
	r.Room = Room{} // it may hold a long result
	return cmp.Or(err, closeErr)
}

// Finish reads the answer to COMMIT, which ends the pipeline, and closes it. err is the
// error of what came before.
func (r *Results) Finish(pg *pgconn.PgConn, err error) (Outcome, error) {
	var tag pgconn.CommandTag
	before := err != nil
	if !before {
		tag, err = r.Exec()
	}
	err = r.Close(err)
	outcome := OutcomeOfCommit(pg, tag, err, before)
	if err == nil && outcome != Committed {
		err = fmt.Errorf("dedup: COMMIT was answered with %q", tag)
	}
	return outcome, err
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
