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

	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// sqlError is an error of the server's, wrapped as an effect may wrap it.
func sqlError(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }

// TestClassify: the ending after a failure that no record explains.
func TestClassify(t *testing.T) {
	t.Parallel()

	const (
		conflicts = "conflicts"
		retries   = "retries"
		atOnce    = "retries at once"
		refuses   = "refuses"
		fails     = "fails"
	)
	paper := errors.New("no paper")
	early, late := failure{at: atEffect}, failure{at: atRecord}
	lost := failure{at: atEffect, connLost: true}
	for name, c := range map[string]struct {
		at    failure
		cause error
		store bool
		want  string
		err   error // that it comes with; nil: its cause
	}{
		"ConflictAtRecord":        {late, sqlError("23505"), true, conflicts, nil},
		"NothingWrittenAtRecord":  {late, sqlError("22012"), true, conflicts, nil},
		"ConflictInEffect":        {early, sqlError("23505"), false, fails, nil},
		"ConflictInStoringEffect": {early, sqlError("23505"), true, refuses, nil},
		"Transient":               {early, sqlError("40001"), true, retries, nil},
		"TransientAtRecord":       {late, sqlError("40001"), true, retries, nil},
		"TransientThoughFinal":    {early, Final(sqlError("40001")), true, retries, nil},
		"ConnectionLost":          {lost, io.EOF, true, retries, nil},
		"SomebodyElsesEOF":        {early, io.EOF, false, fails, nil},
		"LostButForAnotherReason": {lost, paper, false, fails, nil},
		"Restart":                 {early, byEffect(restartTx(paper)), true, retries, nil},
		"ReadOnly":                {failure{at: atEffect, readOnly: true}, sqlError("25006"), true, fails, ErrInvalid},
		"Idle":                    {early, sqlError("25P03"), true, fails, ErrInvalid},
		"IdleAtRecord":            {late, sqlError("25P03"), true, fails, ErrInvalid},
		"GaveUpAtRecord":          {failure{at: atRecord, blocked: 1}, sqlError("55P03"), true, retries, nil},
		"CancelledAtItsLimit":     {failure{at: atRecord, cancelled: true}, sqlError("57014"), true, atOnce, nil},
		"CancelledAtRecord":       {late, sqlError("57014"), true, fails, nil},
		"OtherAtRecord":           {late, sqlError("42501"), true, fails, nil},
		"AtCommit":                {failure{at: atCommit}, sqlError("23503"), false, fails, nil},
		"Control":                 {early, guard.ErrTxControl, true, fails, ErrInvalid},
		"FinalControl":            {early, Final(guard.ErrTxControl), true, fails, ErrInvalid},
		"Final":                   {early, Final(paper), false, refuses, paper},
		"Own":                     {early, paper, false, fails, nil},
		"Stored":                  {early, byEffect(paper), true, refuses, nil},
		"NotOfTheEffect":          {early, paper, true, fails, nil},
		"NotToBeStored":           {early, NotFinal(paper), true, fails, nil},
		"NotFinalThoughFinal":     {early, NotFinal(Final(paper)), true, fails, paper},
		"FinalThoughNotFinal":     {early, Final(NotFinal(paper)), true, fails, paper},
		"TransientThoughNotFinal": {early, NotFinal(sqlError("40001")), true, retries, nil},
	} {
		made := newCall(c.store)
		made.current = attempt{failure: c.at, inOwnTx: true}
		end := made.classify(c.cause)
		got, err := fails, end.err
		switch {
		case end.conflict:
			got = conflicts
		case made.written.Outcome == table.Refused:
			got, err = refuses, made.cause
			require.False(t, end.pause, name)
		case end.kind == again && !end.pause:
			got = atOnce
			require.Equal(t, failed, made.classify(c.cause).kind, "%s: once", name)
		case end.kind == again:
			got = retries
		default:
			require.Equal(t, failed, end.kind, name)
		}
		require.Equal(t, c.want, got, name)
		if c.err == nil {
			c.err = unmarked(c.cause)
		}
		require.ErrorIs(t, unmarked(err), c.err, name)
	}

	// Errors around Final(err) are not kept, whether others are stored or not.
	for _, store := range []bool{true, false} {
		c := newCall(store)
		c.classify(fmt.Errorf("around: %w", Final(paper)))
		require.Equal(t, paper, c.cause)
	}
	c := newCall(true)
	require.ErrorIs(t, c.openFailed(t.Context(), sqlError("25P03")).err, ErrInvalid)
	c.current.failure = late
	require.ErrorContains(t, c.classify(sqlError("42501")).err, "writing the record")
}

func newCall(store bool) *call {
	c := &call{written: table.Record{Outcome: table.Done}}
	c.d, c.storeErrors = &Deduper{opts: Options{MaxResultBytes: 1 << 20, Retry: RetryPolicy{MaxAttempts: 9}}}, store
	return c
}

// TestRecordable: only errors of the tool are stored as its answer.
func TestRecordable(t *testing.T) {
	t.Parallel()

	for _, err := range []error{
		guard.ErrTxControl, guard.ErrTxAborted, guard.ErrTxBusy, ErrInvalid, ErrInFlight,
		&InvalidError{What: "result"}, &Error{Kind: ErrRestartTx}, &Error{Kind: ErrSchema}, &Error{Kind: ErrBroken}, &Error{Kind: ErrOutcomeUnknown}, &Error{Kind: ErrAttemptsExhausted},
		pgx.ErrTxClosed, &InvalidError{What: "call", Field: "Key"},
		context.Canceled, context.DeadlineExceeded,
		sqlError("25P02"), sqlError("26000"), sqlError("57014"), sqlError("58030"), sqlError("F0000"), sqlError("XX000"),
	} {
		require.False(t, recordable(byEffect(fmt.Errorf("wrapped: %w", err))), "%v", err)
	}
	for _, err := range []error{errors.New("no paper"), io.ErrUnexpectedEOF, sqlError("P0001"), sqlError("23505"), sqlError("22003"), sqlError("2")} {
		require.True(t, recordable(byEffect(err)), "%v", err)
	}
	require.True(t, recordable(sqlError("23505")), "of a constraint that COMMIT has checked")
	require.False(t, recordable(errors.New("dedup: the session has another client_encoding")), "the library's")
}

// TestConflictErrorNames: the error names the table and the constraint of a unique violation, and
// no value.
func TestConflictErrorNames(t *testing.T) {
	t.Parallel()

	c := &call{}
	c.Identity = table.Identity{Scope: "acme", Tool: "book", Key: "k"}
	server := &pgconn.PgError{Code: "23505", TableName: "seats", ConstraintName: "one_each", Detail: "Key (name)=(Miller) already exists."}
	for _, cause := range []error{errHidden, fmt.Errorf("wrapped: %w", server)} {
		err := c.conflictError(cause)
		require.ErrorIs(t, err, ErrSchema)
		require.Equal(t, []string{"acme", "book", KeyHash("k")}, []string{err.Scope, err.Tool, err.KeyHash})
		require.NotContains(t, err.Error(), "Miller")
		if cause != errHidden {
			requireCode(t, err, "23505")
			require.ErrorContains(t, err, `table "seats", constraint "one_each"`)
		}
	}
}

// TestWithHint: errors of the library's own statements carry no values, and a hint for common
// set-up errors.
func TestWithHint(t *testing.T) {
	t.Parallel()

	d := &Deduper{}
	d.tables.Store(table.New(table.Options{Schema: "public"}))
	missing := d.withHint(sqlError("42P01"))
	require.ErrorIs(t, missing, ErrSchema)
	require.ErrorContains(t, missing, "there is no table "+d.table().Name)

	denied := d.withHint(sqlError("42501"))
	require.ErrorContains(t, denied, "migrations.Check")
	requireCode(t, denied, "42501")

	detailed := &pgconn.PgError{Code: "23514", Message: "no", Detail: "Failing row contains (Miller)."}
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, d.withHint(fmt.Errorf("wrapped: %w", detailed)))
	harmless := sqlError("23514")
	require.Equal(t, harmless, d.withHint(harmless))
	paper := errors.New("no paper")
	require.Equal(t, paper, d.withHint(paper))

	require.Equal(t, detailed, (&attempt{failure: failure{at: atEffect}}).redact(detailed), "the effect's own error is its own")
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, (&attempt{failure: failure{at: atRecord}}).redact(detailed))
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	require.Equal(t, code, wire.SQLState(err))
}
