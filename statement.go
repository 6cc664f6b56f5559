package dedup

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Statement is an effect that is one SQL statement and returns one row.
type Statement struct {
	// SQL is one statement that returns exactly one row, the result of the call. A statement that
	// writes has a RETURNING clause. SQL is sent unchanged.
	SQL string
	// Args are the values of the parameters $1, $2, …; or one [pgx.NamedArgs] or other
	// [pgx.QueryRewriter].
	Args []any
	// OnError gets the error of the statement and returns the error of the call, after everything
	// that the statement did was rolled back. Wrap the error in [Final] to record it as the answer.
	// A statement that returned no row gives [pgx.ErrNoRows], one that returned several
	// [pgx.ErrTooManyRows]. OnError may be called more than once for one call. It does not get
	// transient faults, a lost connection of the transaction, or errors of an ended context. Nor
	// does it get the error of a deferred constraint at COMMIT, which the call returns unchanged.
	// Default: nil, and errors are returned unchanged. If OnError returns nil, the call returns the
	// statement's error.
	OnError func(err error) error
}

// SQL returns a Statement.
func SQL(sql string, args ...any) Statement { return Statement{SQL: sql, Args: args} }

// boundStatement is a Statement that was checked and rewritten.
type boundStatement struct {
	table.Rider
	// row is the text that records the returned row.
	row     string
	onError func(error) error
}

// bind checks and rewrites a statement. Its error is an ErrInvalid.
func bind(ctx context.Context, stmt *Statement) (bound boundStatement, err error) {
	text, args := stmt.SQL, stmt.Args
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			if text, args, err = rewriter.RewriteQuery(ctx, nil, text, args[1:]); err != nil {
				return bound, &InvalidError{What: "call", Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	switch {
	case strings.IndexByte(text, 0) >= 0: // where the protocol would end the text
		return bound, invalid("Statement", "holds a zero byte")
	case len(sqllex.Split(text)) != 1:
		return bound, invalid("Statement", "must be one statement")
	case sqllex.IsTxControl(text):
		return bound, invalid("Statement", "ends the transaction, which belongs to dedup")
	}
	return boundStatement{Rider: table.Rider{Query: wire.NewQuery(text), Args: args}, onError: stmt.OnError}, nil
}

// applyOnError returns the call's error for an error of the statement. It calls OnError only for
// errors that a fresh transaction would meet again. connLost is true if the statement's connection
// was lost.
func (s *boundStatement) applyOnError(err error, connLost bool) error {
	if s.onError != nil && !mayRetryEffect(err, connLost) && !wire.IsContextError(err) {
		return cmp.Or(s.onError(err), err)
	}
	return err
}
