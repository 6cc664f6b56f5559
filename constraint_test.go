package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/guard"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// sqlError is an error of the server's, wrapped as an effect may wrap it.
func sqlError(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }

// TestClassify: what a failure means where no record explains it.
func TestClassify(t *testing.T) {
	t.Parallel()

	const (
		conflicts = "conflicts"
		retries   = "retries"
		refuses   = "refuses"
		fails     = "fails"
	)
	paper := errors.New("no paper")
	early, late := attempt{failedAt: atEffect}, attempt{failedAt: atRecord}
	lost := attempt{failedAt: atEffect, connLost: true}
	for name, c := range map[string]struct {
		tx    attempt
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
		"ReadOnly":                {attempt{failedAt: atEffect, readOnly: true}, sqlError("25006"), true, fails, ErrInvalid},
		"Idle":                    {early, sqlError("25P03"), true, fails, ErrInvalid},
		"IdleAtRecord":            {late, sqlError("25P03"), true, fails, ErrInvalid},
		"OtherAtRecord":           {late, sqlError("42501"), true, fails, nil},
		"AtCommit":                {attempt{failedAt: atCommit}, sqlError("23503"), false, fails, nil},
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
		asked := newCall(c.store)
		asked.last = c.tx
		v := asked.classify(c.cause)
		got, err := fails, v.err
		switch {
		case v.conflict:
			got = conflicts
		case asked.outcome == table.Refused:
			got, err = refuses, asked.cause
			require.False(t, v.pause, name)
		case v.kind == again:
			got = retries
			require.True(t, v.pause, name)
		default:
			require.Equal(t, failed, v.kind, name)
		}
		require.Equal(t, c.want, got, name)
		if c.err == nil {
			c.err = effectsOwn(c.cause)
		}
		require.ErrorIs(t, effectsOwn(err), c.err, name)
	}

	// Errors around Final(err) are not kept, whether others are stored or not.
	for _, store := range []bool{true, false} {
		asked := newCall(store)
		asked.classify(fmt.Errorf("around: %w", Final(paper)))
		require.Equal(t, paper, asked.cause)
	}
	asked := newCall(true)
	asked.last = late
	require.ErrorContains(t, asked.classify(sqlError("42501")).err, "writing the record")
}

func newCall(store bool) *call {
	c := &call{outcome: table.Done}
	c.d, c.storeErrors = &Deduper{opts: Options{MaxResultBytes: 1 << 20, Retry: RetryPolicy{MaxAttempts: 9}}}, store
	return c
}

// TestTripwire: only the tripwire of the record's own statement shows that the effect had ended
// the transaction.
func TestTripwire(t *testing.T) {
	t.Parallel()

	tripwire := func(code, column string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, ColumnName: column})
	}
	for name, c := range map[string]struct {
		at     stage
		err    error
		broken bool
	}{
		"Ended":        {atEffect, errTxEnded, true},
		"Tripped":      {atRecord, tripwire("23502", "outcome"), true},
		"TableOfTools": {atEffect, tripwire("23502", "outcome"), false},
		"OtherColumn":  {atRecord, tripwire("23502", "result"), false},
		"OtherCode":    {atRecord, tripwire("23514", "outcome"), false},
		"OtherError":   {atRecord, errors.New("no paper"), false},
	} {
		asked := newCall(false)
		asked.last.failedAt, asked.outcome = c.at, table.Broken // and not even that can be recorded
		v, ok := asked.explainedAlready(t.Context(), c.err, nil)
		require.Equal(t, c.broken, ok, name)
		if ok {
			require.Equal(t, verdict{kind: failed, err: c.err}, v, name)
		}
	}
}

// TestRecordable: what is no answer of the tool's is not stored as one.
func TestRecordable(t *testing.T) {
	t.Parallel()

	for _, err := range []error{
		guard.ErrTxControl, guard.ErrTxAborted, guard.ErrTxBusy, ErrInvalid, ErrInFlight,
		&InvalidError{What: "result"}, &Error{Answer: ErrRestartTx}, &Error{Answer: ErrSchema}, &Error{Answer: ErrBroken}, &Error{Answer: ErrOutcomeUnknown}, &Error{Answer: ErrAttemptsExhausted},
		pgx.ErrTxClosed, &InvalidError{What: "call", Field: "Key"},
		context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF,
		sqlError("25P02"), sqlError("26000"), sqlError("57014"), sqlError("58030"), sqlError("F0000"), sqlError("XX000"),
	} {
		require.False(t, recordable(byEffect(fmt.Errorf("wrapped: %w", err))), "%v", err)
	}
	for _, err := range []error{errors.New("no paper"), sqlError("P0001"), sqlError("23505"), sqlError("22003"), sqlError("2")} {
		require.True(t, recordable(byEffect(err)), "%v", err)
	}
	require.True(t, recordable(sqlError("23505")), "of a constraint that COMMIT has checked")
	require.False(t, recordable(errors.New("dedup: the session has another client_encoding")), "the library's")
}

// TestConflictErrorNames: the error names the table and the constraint of a unique
// violation, and no value.
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

// TestExplained: errors of the library's own statements carry no values, and the
// fix where there is one.
func TestExplained(t *testing.T) {
	t.Parallel()

	d := &Deduper{}
	d.tables.Store(table.New(table.Options{Schema: "public", Isolation: pgx.ReadCommitted}))
	missing := d.explained(sqlError("42P01"))
	require.ErrorIs(t, missing, ErrSchema)
	require.ErrorContains(t, missing, "there is no table "+d.table().Name)

	denied := d.explained(sqlError("42501"))
	require.ErrorContains(t, denied, "migrations.Check")
	requireCode(t, denied, "42501")

	detailed := &pgconn.PgError{Code: "23514", Message: "no", Detail: "Failing row contains (Miller)."}
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, d.explained(fmt.Errorf("wrapped: %w", detailed)))
	harmless := sqlError("23514")
	require.Equal(t, harmless, d.explained(harmless))
	paper := errors.New("no paper")
	require.Equal(t, paper, d.explained(paper))

	require.Equal(t, detailed, (&attempt{failedAt: atEffect}).clean(detailed), "the effect's own error is its own")
	require.Equal(t, &pgconn.PgError{Code: "23514", Message: "no"}, (&attempt{failedAt: atRecord}).clean(detailed))
}

func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	require.Equal(t, code, wire.SQLState(err))
}

// TestDatabaseClockThatJumps: after a failover to a server whose clock goes ahead, a
// statement is taken for one that is late, and its call is answered all the same. The
// next one goes in one trip again.
func TestDatabaseClockThatJumps(t *testing.T) {
	t.Parallel()

	leave := func(key string) StatementCall {
		return StatementCall{
			Call: Call{Scope: "acme", Tool: "create_ticket", Key: key},
			Statement: SQL(`WITH run AS (SELECT nextval('runs')::int AS n)
				INSERT INTO effects (ref) SELECT $1::text FROM run RETURNING (SELECT n FROM run) AS id`, key),
		}
	}
	for way, runs := range map[string]int{"DoStatement": 1, "DoBatch": 2} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			proxy, err := faultproxy.New(db.URL)
			require.NoError(t, err)
			t.Cleanup(proxy.Close)
			ctx := t.Context()
			pool, err := pgxpool.New(ctx, proxy.URL())
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			_, err = pool.Exec(ctx, `CREATE TABLE effects (ref text NOT NULL); CREATE SEQUENCE runs`)
			require.NoError(t, err)
			d, err := New(pool, nil)
			require.NoError(t, err)
			do := func(ctx context.Context, key string) error {
				c := leave(key)
				_, err := DoStatement[map[string]any](ctx, d, c.Call, c.Statement)
				return err
			}
			require.NoError(t, do(ctx, "warm"))
			var before int
			const counted = `SELECT last_value FROM runs`
			require.NoError(t, pool.QueryRow(ctx, counted).Scan(&before))

			d.clock.ahead.Add(-time.Hour.Microseconds())
			if way == "DoStatement" {
				require.NoError(t, do(ctx, "k"))
			} else {
				for out := range DoBatch[map[string]any](ctx, d, func(yield func(StatementCall) bool) {
					_ = yield(leave("j")) && yield(leave("k"))
				}, nil) {
					require.NoError(t, out.Err)
				}
			}
			var effects, after int
			require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM effects WHERE ref = 'k'`).Scan(&effects))
			require.Equal(t, 1, effects)
			require.NoError(t, pool.QueryRow(ctx, counted).Scan(&after))
			require.Equal(t, runs, after-before)

			require.NoError(t, do(ctx, "next"))
			proxy.Reset()
			require.NoError(t, do(ctx, "last"))
			seen := proxy.Snapshot()
			require.Equal(t, 1, seen.RoundTrips)
			require.Zero(t, seen.Connections, fmt.Sprint(seen))
		})
	}
}
