package guard

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/wire"
)

// note keeps the last error of a statement. If the transaction is aborted, that error aborted it:
// savepoints undid the earlier ones.
func (e *guardedTx) note(err error) {
	if err == nil {
		return
	}
	var server *pgconn.PgError
	switch {
	case !errors.As(err, &server):
	case server.Code == wire.CodeTxAborted: // it follows from the error before
	default:
		e.root.failed.Store(server)
	}
}

// notedRow notes an error that occurs while its row is read.
type notedRow struct {
	pgx.Row
	e *guardedTx
}

func (r notedRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	r.e.note(err)
	return err
}

// notedRows notes an error that occurs while its rows are read, and a use of its connection.
type notedRows struct {
	pgx.Rows
	e *guardedTx
}

func (r notedRows) Err() error {
	err := r.Rows.Err()
	r.e.note(err)
	return err
}

func (r notedRows) Conn() *pgx.Conn {
	r.e.root.connAsked.Store(true)
	return r.Rows.Conn()
}

// notedBatch notes the errors of a batch.
type notedBatch struct {
	pgx.BatchResults
	e *guardedTx
}

func (b notedBatch) Exec() (pgconn.CommandTag, error) {
	tag, err := b.BatchResults.Exec()
	b.e.note(err)
	return tag, err
}

func (b notedBatch) Query() (pgx.Rows, error) {
	rows, err := b.BatchResults.Query()
	b.e.note(err)
	return notedRows{rows, b.e}, err
}

func (b notedBatch) QueryRow() pgx.Row { return notedRow{b.BatchResults.QueryRow(), b.e} }

func (b notedBatch) Close() error {
	err := b.BatchResults.Close()
	b.e.note(err)
	return err
}
