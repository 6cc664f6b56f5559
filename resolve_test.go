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
)

// state is an error of the server's, wrapped as an effect may wrap it.
func state(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }

// TestOwnState: what a failure means where no record explains it.
func TestOwnState(t *testing.T) {
	t.Parallel()

	paper := errors.New("no paper")
	storing := &request{storeErrors: true}
	for name, c := range map[string]struct {
		f    failure
		req  *request
		want attemptState
		err  error // that it comes with; nil: its own
	}{
		"ConflictAtRecord":        {failure{err: state("23505"), atRecord: true}, storing, attemptConflict, nil},
		"NothingWrittenAtRecord":  {failure{err: state("22012"), atRecord: true}, storing, attemptConflict, nil},
		"ConflictInEffect":        {failure{err: state("23505")}, &request{}, attemptFailed, nil},
		"ConflictInStoringEffect": {failure{err: state("23505")}, storing, attemptRefusal, nil},
		"Transient":               {failure{err: state("40001")}, storing, attemptRetry, nil},
		"TransientAtRecord":       {failure{err: state("40001"), atRecord: true}, storing, attemptRetry, nil},
		"TransientThoughFinal":    {failure{err: Final(state("40001"))}, storing, attemptRetry, nil},
		"ConnectionLost":          {failure{err: io.EOF, lost: true}, storing, attemptRetry, nil},
		"SomebodyElsesEOF":        {failure{err: io.EOF}, &request{}, attemptFailed, nil},
		"LostButForAnotherReason": {failure{err: paper, lost: true}, &request{}, attemptFailed, nil},
		"Idle":                    {failure{err: state("25P03")}, storing, attemptFailed, ErrEffectIdle},
		"IdleAtRecord":            {failure{err: state("25P03"), atRecord: true}, storing, attemptFailed, ErrEffectIdle},
		"OtherAtRecord":           {failure{err: state("42501"), atRecord: true}, storing, attemptFailed, nil},
		"Final":                   {failure{err: Final(paper)}, &request{}, attemptRefusal, paper},
		"Own":                     {failure{err: paper}, &request{}, attemptFailed, nil},
		"Stored":                  {failure{err: paper}, storing, attemptRefusal, nil},
		"NotToBeStored":           {failure{err: NotFinal(paper)}, storing, attemptFailed, nil},
	} {
		got, err := c.f.ownState(c.req)
		require.Equal(t, c.want, got, name)
		if c.err == nil {
			c.err = c.f.err
		}
		require.ErrorIs(t, err, c.err, name)
	}

	// Errors around Final(err) are not kept, whether others are stored or not.
	for _, req := range []*request{storing, {}} {
		_, err := failure{err: fmt.Errorf("around: %w", Final(paper))}.ownState(req)
		require.Equal(t, paper, err)
	}
	_, err := failure{err: state("42501"), atRecord: true}.ownState(storing)
	require.ErrorContains(t, err, "writing the record")
}

// TestBrokeTx: only the tripwire of the record's own statement tells that the
// effect had ended the transaction.
func TestBrokeTx(t *testing.T) {
	t.Parallel()

	tripwire := func(code, column string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, ColumnName: column})
	}
	require.True(t, failure{err: errTxGone}.brokeTx())
	require.True(t, failure{err: tripwire("23502", "outcome"), atRecord: true}.brokeTx())
	require.False(t, failure{err: tripwire("23502", "outcome")}.brokeTx(), "a table of the tool's own")
	require.False(t, failure{err: tripwire("23502", "result"), atRecord: true}.brokeTx())
	require.False(t, failure{err: tripwire("23514", "outcome"), atRecord: true}.brokeTx())
	require.False(t, failure{err: errors.New("no paper"), atRecord: true}.brokeTx())
}

// TestRecordable: what is no answer of the tool's is not stored as one.
func TestRecordable(t *testing.T) {
	t.Parallel()

	for _, err := range []error{
		ErrTxControl, ErrTxAborted, ErrTxBusy, ErrEffectIdle, ErrInFlight, ErrNested, ErrReentrant,
		&ResultError{}, &RestartTxError{}, &ArbiterError{}, &ConflictError{}, &BrokenError{}, &OutcomeUnknownError{}, &AttemptsError{},
		pgx.ErrTxClosed, &InvalidCallError{Field: "Key"},
		context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF,
		state("25P02"), state("26000"), state("57014"), state("58030"), state("F0000"), state("XX000"),
	} {
		require.False(t, recordable(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{errors.New("no paper"), state("P0001"), state("23505"), state("22003"), state("2")} {
		require.True(t, recordable(err), "%v", err)
	}
}

// TestConflictErrorNames the table and constraint of a unique violation, and
// the record's table where there is none.
func TestConflictErrorNames(t *testing.T) {
	t.Parallel()

	req := &request{identity: identity{"acme", "book", "k"}}
	bare := ConflictError{Scope: "acme", Tool: "book", KeyHash: KeyHash("k"), Table: "tool_dedup"}
	require.Equal(t, &bare, conflictError(req, nil))

	server := pgconn.PgError{Code: "23505", TableName: "seats", ConstraintName: "one_each"}
	told := server
	told.Detail = "Key (name)=(Miller) already exists."
	want := bare
	want.Table, want.Constraint, want.Err = "seats", "one_each", &server
	require.Equal(t, &want, conflictError(req, fmt.Errorf("wrapped: %w", &told)))

	other := pgconn.PgError{Code: "22012", TableName: "seats", ConstraintName: "one_each"}
	want = bare
	want.Err = &other
	require.Equal(t, &want, conflictError(req, &other))
}

// TestExplained: errors of the library's own statements carry no values, and the
// fix where there is one.
func TestExplained(t *testing.T) {
	t.Parallel()

	d := &Deduper{sql: &statements{table: `"public"."tool_dedup"`}}
	var arbiter *ArbiterError
	require.ErrorAs(t, d.explained(state("42P01")), &arbiter)
	require.Equal(t, d.sql.table, arbiter.Table)
	require.Len(t, arbiter.Problems, 1)
	require.Contains(t, arbiter.Problems[0], "does not exist")

	denied := d.explained(state("42501"))
	require.ErrorContains(t, denied, "migrations.Check")
	requireCode(t, denied, "42501")

	told := &pgconn.PgError{Code: "23514", Message: "no", Detail: "Failing row contains (Miller)."}
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, d.explained(fmt.Errorf("wrapped: %w", told)))
	harmless := state("23514")
	require.Equal(t, harmless, d.explained(harmless))
	paper := errors.New("no paper")
	require.Equal(t, paper, d.explained(paper))

	require.Equal(t, told, failure{err: told}.cleaned().err, "the effect's own error is its own")
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, failure{err: told, atRecord: true}.cleaned().err)
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	require.Equal(t, code, sqlState(err))
}

// TestIsPlainError: only an error after which the server goes on proves that
// nothing was committed. The field that is never translated has the word.
func TestIsPlainError(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		unlocalized, severity string
		plain                 bool
	}{
		{"ERROR", "FEHLER", true},
		{"", "ERROR", true},
		{"FATAL", "ERROR", false},
		{"PANIC", "PANIC", false},
		{"", "FATAL", false},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: c.unlocalized, Severity: c.severity})
		require.Equal(t, c.plain, isPlainError(err), "%+v", c)
	}
	require.False(t, isPlainError(io.EOF))
	require.True(t, isUnsent(fmt.Errorf("wrapped: %w", pgx.ErrPreprocessingBatch{})))
	require.False(t, isUnsent(io.EOF))
}
