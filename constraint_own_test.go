package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// sqlError is an error of the server's, wrapped as an effect may wrap it.
func sqlError(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }

// TestOwnState: what a failure means where no record explains it.
func TestOwnState(t *testing.T) {
	t.Parallel()

	paper := errors.New("no paper")
	storing := &call{storeErrors: true}
	for name, c := range map[string]struct {
		v    verdict
		bad  *call
		want state
		err  error // that it comes with; nil: its own
	}{
		"ConflictAtRecord":        {verdict{err: sqlError("23505"), atRecord: true}, storing, conflicted, nil},
		"NothingWrittenAtRecord":  {verdict{err: sqlError("22012"), atRecord: true}, storing, conflicted, nil},
		"ConflictInEffect":        {verdict{err: sqlError("23505")}, &call{}, failed, nil},
		"ConflictInStoringEffect": {verdict{err: sqlError("23505")}, storing, refused, nil},
		"Transient":               {verdict{err: sqlError("40001")}, storing, retry, nil},
		"TransientAtRecord":       {verdict{err: sqlError("40001"), atRecord: true}, storing, retry, nil},
		"TransientThoughFinal":    {verdict{err: Final(sqlError("40001"))}, storing, retry, nil},
		"ConnectionLost":          {verdict{err: io.EOF, lost: true}, storing, retry, nil},
		"SomebodyElsesEOF":        {verdict{err: io.EOF}, &call{}, failed, nil},
		"LostButForAnotherReason": {verdict{err: paper, lost: true}, &call{}, failed, nil},
		"Idle":                    {verdict{err: sqlError("25P03")}, storing, failed, ErrEffectIdle},
		"IdleAtRecord":            {verdict{err: sqlError("25P03"), atRecord: true}, storing, failed, ErrEffectIdle},
		"OtherAtRecord":           {verdict{err: sqlError("42501"), atRecord: true}, storing, failed, nil},
		"Final":                   {verdict{err: Final(paper)}, &call{}, refused, paper},
		"Own":                     {verdict{err: paper}, &call{}, failed, nil},
		"Stored":                  {verdict{err: paper}, storing, refused, nil},
		"NotToBeStored":           {verdict{err: NotFinal(paper)}, storing, failed, nil},
	} {
		c.v.bad = c.bad
		got, err := c.v.own()
		require.Equal(t, c.want, got, name)
		if c.err == nil {
			c.err = c.v.err
		}
		require.ErrorIs(t, err, c.err, name)
	}

	// Errors around Final(err) are not kept, whether others are stored or not.
	for _, bad := range []*call{storing, {}} {
		_, err := (&verdict{err: fmt.Errorf("around: %w", Final(paper)), bad: bad}).own()
		require.Equal(t, paper, err)
	}
	_, err := (&verdict{err: sqlError("42501"), atRecord: true, bad: storing}).own()
	require.ErrorContains(t, err, "writing the record")
}

// TestBrokeTx: only the tripwire of the record's own statement tells that the
// effect had ended the transaction.
func TestBrokeTx(t *testing.T) {
	t.Parallel()

	tripwire := func(code, column string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, ColumnName: column})
	}
	require.True(t, (&verdict{err: errTxEnded}).brokeTx())
	require.True(t, (&verdict{err: tripwire("23502", "outcome"), atRecord: true}).brokeTx())
	require.False(t, (&verdict{err: tripwire("23502", "outcome")}).brokeTx(), "a table of the tool's own")
	require.False(t, (&verdict{err: tripwire("23502", "result"), atRecord: true}).brokeTx())
	require.False(t, (&verdict{err: tripwire("23514", "outcome"), atRecord: true}).brokeTx())
	require.False(t, (&verdict{err: errors.New("no paper"), atRecord: true}).brokeTx())
}

// TestRecordable: what is no answer of the tool's is not stored as one.
func TestRecordable(t *testing.T) {
	t.Parallel()

	for _, err := range []error{
		ErrTxControl, ErrTxAborted, ErrTxBusy, ErrEffectIdle, ErrInFlight, ErrNested, ErrReentrant,
		&ResultError{}, &RestartTxError{}, &ArbiterError{}, &ConflictError{}, &BrokenError{}, &OutcomeUnknownError{}, &AttemptsError{},
		pgx.ErrTxClosed, &InvalidCallError{Field: "Key"},
		context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF,
		sqlError("25P02"), sqlError("26000"), sqlError("57014"), sqlError("58030"), sqlError("F0000"), sqlError("XX000"),
	} {
		require.False(t, recordable(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{errors.New("no paper"), sqlError("P0001"), sqlError("23505"), sqlError("22003"), sqlError("2")} {
		require.True(t, recordable(err), "%v", err)
	}
}

// TestConflictErrorNames the table and constraint of a unique violation, and
// the record's table where there is none.
func TestConflictErrorNames(t *testing.T) {
	t.Parallel()

	c := &call{Entry: table.Entry{Identity: table.Identity{Scope: "acme", Tool: "book", Key: "k"}}}
	bare := ConflictError{Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), Table: "tool_dedup"}
	require.Equal(t, &bare, conflictError(c, nil))

	server := pgconn.PgError{Code: "23505", TableName: "seats", ConstraintName: "one_each"}
	told := server
	told.Detail = "Key (name)=(Miller) already exists."
	want := bare
	want.Table, want.Constraint, want.Err = "seats", "one_each", &server
	require.Equal(t, &want, conflictError(c, fmt.Errorf("wrapped: %w", &told)))

	other := pgconn.PgError{Code: "22012", TableName: "seats", ConstraintName: "one_each"}
	want = bare
	want.Err = &other
	require.Equal(t, &want, conflictError(c, &other))
}

// TestExplained: errors of the library's own statements carry no values, and the
// fix where there is one.
func TestExplained(t *testing.T) {
	t.Parallel()

	d := &Deduper{table: table.New(table.Options{Schema: "public", Isolation: pgx.ReadCommitted})}
	var arbiter *ArbiterError
	require.ErrorAs(t, d.explained(sqlError("42P01")), &arbiter)
	require.Equal(t, d.table.Name, arbiter.Table)
	require.Len(t, arbiter.Problems, 1)
	require.Contains(t, arbiter.Problems[0], "does not exist")

	denied := d.explained(sqlError("42501"))
	require.ErrorContains(t, denied, "migrations.Check")
	requireCode(t, denied, "42501")

	told := &pgconn.PgError{Code: "23514", Message: "no", Detail: "Failing row contains (Miller)."}
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, d.explained(fmt.Errorf("wrapped: %w", told)))
	harmless := sqlError("23514")
	require.Equal(t, harmless, d.explained(harmless))
	paper := errors.New("no paper")
	require.Equal(t, paper, d.explained(paper))

	v := verdict{err: told}
	v.clean()
	require.Equal(t, told, v.err, "the effect's own error is its own")
	v.atRecord = true
	v.clean()
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, v.err)
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	require.Equal(t, code, wire.SQLState(err))
}
