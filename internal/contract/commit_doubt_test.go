package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestFreeInAnOldSnapshot: at stricter levels lock and look-up share one snapshot, which may be
// older than the lost COMMIT. If an attempt finds the identity free and no look follows, the COMMIT
// stays lost.
func TestFreeInAnOldSnapshot(t *testing.T) {
	t.Parallel()

	for _, isolation := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, profile{isolation: isolation}, &dedup.Options{Retry: quickRetry})
			f.warm(t)
			calling, cancel := context.WithCancel(ctx)
			defer cancel()
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
			e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, run int) error {
				if run == 1 {
					return nil
				}
				cancel()
				return ctx.Err()
			}}
			_, err := dedup.Do(calling, f.d, call("k"), e.run)
			require.ErrorIs(t, err, context.Canceled)
			e.requireRuns(t, 2)
			if isolation == pgx.ReadCommitted {
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
			} else {
				require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
			}
		})
	}
}

// wireAnswer encodes messages of a server.
func wireAnswer(t *testing.T, messages ...pgproto3.BackendMessage) []byte {
	t.Helper()
	var b []byte
	for _, m := range messages {
		var err error
		b, err = m.Encode(b)
		require.NoError(t, err)
	}
	return b
}

// recordWritten is the answer to the statement that writes a record.
func recordWritten() []pgproto3.BackendMessage {
	return []pgproto3.BackendMessage{
		&pgproto3.BindComplete{},
		&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("created_at"), DataTypeOID: 1184, DataTypeSize: 8, TypeModifier: -1, Format: 1}}},
		&pgproto3.DataRow{Values: [][]byte{make([]byte, 8)}},
		&pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")},
		&pgproto3.BindComplete{},
	}
}

// workerLost is the answer of a Citus coordinator to COMMIT if a worker's answer to its own COMMIT
// is lost. The worker may still commit.
func workerLost(t *testing.T, code string) []byte {
	t.Helper()
	return wireAnswer(t, append(recordWritten(),
		&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: "could not commit transaction for shard 102008 on any active node"},
		&pgproto3.ReadyForQuery{TxStatus: 'I'})...)
}

// TestCommitOfAWorkerInDoubt: an error at COMMIT that comes from behind the server
// proves nothing, and neither does a lock that is free: a worker may commit yet.
func TestCommitOfAWorkerInDoubt(t *testing.T) {
	t.Parallel()

	// The next attempt has the identity to itself and fails. A lock proves nothing by
	// that; a claim does, since it waits for the worker that may commit yet.
	t.Run("ThenAnError", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit, Answer: workerLost(t, "XX000")})
			e := &tool{ref: "k", then: func(_ context.Context, _ pgx.Tx, run int) error {
				if run == 1 {
					return nil
				}
				return errPaper
			}}
			_, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.ErrorIs(t, err, errPaper)
			e.requireRuns(t, 2)
			require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
		})
	})

	t.Run("AlwaysInDoubt", func(t *testing.T) {
		t.Parallel()
		retry := quickRetry
		retry.MaxAttempts = 3
		ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: retry})
		f.warm(t)
		proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit, Times: -1, Answer: workerLost(t, "XX000")})
		var unknown *dedup.Error
		_, err := dedup.Do(ctx, f.d, call("k"), (&tool{ref: "k"}).run)
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, 3, unknown.Attempts)
	})

}

// TestAnswersToCommit has the possible answers of a server or a proxy to the record and COMMIT, and
// the result of the call.
func TestAnswersToCommit(t *testing.T) {
	t.Parallel()

	fault := func(severity, code string) *pgproto3.ErrorResponse {
		return &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "no"}
	}
	tag := func(text string) *pgproto3.CommandComplete {
		return &pgproto3.CommandComplete{CommandTag: []byte(text)}
	}
	ready := func(status byte) *pgproto3.ReadyForQuery { return &pgproto3.ReadyForQuery{TxStatus: status} }
	recorded := func(then ...pgproto3.BackendMessage) []pgproto3.BackendMessage {
		return append(recordWritten(), then...)
	}
	definite := errors.New("it was not committed")

	for name, c := range map[string]struct {
		answer []pgproto3.BackendMessage
		want   error
	}{
		"Committed":        {recorded(tag("COMMIT"), ready('I')), nil},
		"Closed":           {nil, dedup.ErrOutcomeUnknown},
		"RecordThenClosed": {recorded(), dedup.ErrOutcomeUnknown},
		"CommitThenClosed": {recorded(tag("COMMIT")), dedup.ErrOutcomeUnknown},
		"FatalAtRecord":    {[]pgproto3.BackendMessage{fault("FATAL", "57P01")}, dedup.ErrOutcomeUnknown},
		"FatalAtCommit":    {recorded(fault("FATAL", "08P01")), dedup.ErrOutcomeUnknown},
		"FatalAfterCommit": {recorded(tag("COMMIT"), fault("FATAL", "08P01")), dedup.ErrOutcomeUnknown},
		"PanicAtCommit":    {recorded(fault("PANIC", "XX000")), dedup.ErrOutcomeUnknown},
		"StrangeTag":       {recorded(tag("DONE"), ready('I')), dedup.ErrOutcomeUnknown},
		"TagRollback":      {recorded(tag("ROLLBACK"), ready('I')), definite},
		"ErrorAtCommit":    {recorded(fault("ERROR", "23514"), ready('I')), definite},
		"ErrorAtRecord":    {[]pgproto3.BackendMessage{&pgproto3.BindComplete{}, fault("ERROR", "23514"), ready('E')}, definite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 1}})
			f.warm(t)
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit, Answer: wireAnswer(t, c.answer...)})
			_, err := byDo(ctx, f.d, call("k"))
			switch c.want {
			case nil:
				require.NoError(t, err)
			case definite:
				require.Error(t, err)
				for _, other := range []error{dedup.ErrOutcomeUnknown, dedup.ErrKeyReused, dedup.ErrBroken, dedup.ErrExpired} {
					require.NotErrorIs(t, err, other)
				}
			default:
				require.ErrorIs(t, err, c.want)
			}
		})
	}
}

// TestTripwireWithoutItsColumn: Citus names no column when it passes the error of a
// worker on. That the effect ended its transaction must be found out all the same.
func TestTripwireWithoutItsColumn(t *testing.T) {
	t.Parallel()

	ctx, f, proxy := proxied(t, plain, nil)
	f.warm(t)
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit, Skip: 1, Answer: wireAnswer(t,
		&pgproto3.BindComplete{},
		&pgproto3.ErrorResponse{
			Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23502",
			Message: `NULL-Wert in Spalte »outcome« von Relation »tool_dedup_102008« verletzt Not-Null-Constraint`,
		},
		&pgproto3.ReadyForQuery{TxStatus: 'E'})})
	e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
		for _, sql := range []string{"commit", "begin"} {
			if _, err := tx.Conn().Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}}
	for range 2 {
		_, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrBroken)
	}
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
}

// fatal is how a server ends a session.
func fatal(code, message string) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: message}
}

// TestTransactionTimeout: PostgreSQL 17 ends a transaction that exceeds transaction_timeout, even
// while it is idle. If the error replaces the answer to the record's statement, COMMIT was not
// reached. If it replaces the answer to COMMIT, the time may have ended during the commit.
func TestTransactionTimeout(t *testing.T) {
	t.Parallel()

	timeout := fatal("25P04", "terminating connection due to transaction timeout")
	t.Run("BeforeTheRecord", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f, proxy := proxied(t, p, &dedup.Options{Retry: quickRetry})
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit, Times: -1, Answer: wireAnswer(t, timeout)})
			e := &tool{ref: "k"}
			_, err := dedup.Do(ctx, f.d, call("k"), e.run)
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.ErrorContains(t, err, "transaction_timeout")
			requireState(t, err, "25P04")
			require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
			require.False(t, dedup.IsRetryable(err))
			e.requireRuns(t, 1)
		})
	})

	t.Run("InTheEffect", func(t *testing.T) {
		t.Parallel()
		for _, swallows := range []bool{false, true} {
			ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry})
			proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("INSERT INTO effects"), Times: -1, Answer: wireAnswer(t, timeout)})
			runs := 0
			_, err := dedup.Do(ctx, f.d, storing("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				runs++
				_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ('k')`)
				if swallows {
					err = nil
				}
				return ticket{}, err
			})
			require.ErrorIs(t, err, dedup.ErrInvalid, "%v", swallows)
			requireState(t, err, "25P04")
			require.Equal(t, 1, runs)
		}
	})

	// A server with this setting sends the answer itself.
	t.Run("OfTheServer", func(t *testing.T) {
		t.Parallel()
		_, b := setup(t, nil)
		if scalar[int](t, b, `SELECT current_setting('server_version_num')::int`) < 170000 {
			return // played above
		}
		bothOrders(t, func(t *testing.T, p profile) {
			for idle, silent := range map[string]bool{"Idle": true, "Busy": false} {
				t.Run(idle, func(t *testing.T) {
					t.Parallel()
					ctx, f := p.setup(t, &dedup.Options{Retry: quickRetry}, func(config *pgxpool.Config) {
						config.ConnConfig.RuntimeParams["transaction_timeout"] = "300ms"
					})
					e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
						var pid int32
						if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
							return err
						}
						if silent {
							f.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid)
							return nil
						}
						_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
						return err
					}}
					_, err := dedup.Do(ctx, f.d, call("k"), e.run)
					require.ErrorIs(t, err, dedup.ErrInvalid)
					requireState(t, err, "25P04")
					require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
					e.requireRuns(t, 1)

					if p.locks() {
						_, err = dedup.DoStatement[ticket](ctx, f.d, call("s"), dedup.SQL(`SELECT 1 AS id FROM pg_sleep(60)`))
						require.ErrorIs(t, err, dedup.ErrInvalid)
					}
					require.Zero(t, f.records(t))
				})
			}
		})
	})

	// The answer of the call is the state of its record. The server's last message proves nothing.
	for name, answer := range map[string][]byte{
		"InPlaceOfCommits": wireAnswer(t, append(recordWritten(), timeout)...),
		"AfterCommits":     wireAnswer(t, append(recordWritten(), &pgproto3.CommandComplete{CommandTag: []byte("COMMIT")}, timeout)...),
	} {
		for _, kind := range []faultproxy.Kind{faultproxy.Dropped, faultproxy.Delayed} {
			if name == "AfterCommits" && kind == faultproxy.Dropped {
				continue // it was answered
			}
			t.Run(fmt.Sprint(name, "/", kind), func(t *testing.T) {
				t.Parallel()
				ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry})
				f.warm(t)
				fault := proxy.Arm(faultproxy.Fault{Kind: kind, Where: faultproxy.AtCommit, Answer: answer})
				e := &tool{ref: "k"}
				pending := start(ctx, f.d, call("k"), e.run)
				require.NoError(t, fault.Wait(ctx))
				fault.Release()
				result := receive(t, ctx, pending).require(t)
				require.Equal(t, kind == faultproxy.Delayed, result.Recovered)
				require.Equal(t, 1, f.effects(t, "k"))
			})
		}
	}
}
