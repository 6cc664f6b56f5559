package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/guard"
)

func caseKeyReused(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	held := newGate()
	e := &tool{ref: "k", then: held.then}
	first := f.start(ctx, f.d, call("k"), e.run)
	receive(t, ctx, held.entered)

	// A twin in the same process, with other arguments, while the first runs.
	other := call("k")
	other.Args = map[string]any{"title": "printer is fine", "urgent": false}
	misuse := f.start(ctx, f.d, other, e.run)
	require.NoError(t, f.events.untilWaiting(ctx, 1, 0))
	held.release()
	receive(t, ctx, first).require(t)

	later, err := f.do(ctx, f.peer(t), other, e.run)
	require.Zero(t, later.Value)
	for _, err := range []error{receive(t, ctx, misuse).err, err} {
		var reused *dedup.Error
		require.ErrorIs(t, err, dedup.ErrKeyReused)
		require.ErrorAs(t, err, &reused)
		require.Equal(t, []string{"title", "urgent"}, reused.Changed)
		require.True(t, reused.Complete)
		require.NotContains(t, err.Error(), "printer")
	}
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Len(t, f.events.ended(dedup.OutcomeKeyReused), 2)
}

// caseTakeover lets four twins, in two processes, have an identity anew while a
// sweeper is after its forgotten record.
func caseTakeover(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	peer := f.peer(t)
	const keys = 6
	effects := make([]tool, keys)
	for i := range keys {
		effects[i].ref = fmt.Sprint(i)
		_, err := f.do(ctx, f.d, call(fmt.Sprint(i)), effects[i].run)
		require.NoError(t, err)
	}
	f.exec(t, `UPDATE tool_dedup SET created_at = now() - interval '3 h', expires_at = now() - interval '2 h', forget_at = now() - interval '1 h'`)

	sweeper, err := dedup.NewSweeper(f.peer(t), &dedup.SweeperOptions{Interval: time.Millisecond, Sweep: dedup.SweepOptions{BatchSize: 1}})
	require.NoError(t, err)
	sweeping, stop := context.WithCancel(ctx)
	swept := make(chan error, 1)
	go func() { swept <- sweeper.Run(sweeping) }()

	pending := make([][]<-chan answered, keys)
	for i := range keys {
		for j := range 4 {
			pending[i] = append(pending[i], f.start(ctx, []*dedup.Deduper{f.d, peer}[j%2], call(fmt.Sprint(i)), effects[i].run))
		}
	}
	for i := range keys {
		var answers []dedup.Result[ticket]
		for _, one := range pending[i] {
			answers = append(answers, receive(t, ctx, one).require(t))
		}
		requireTwins(t, answers)
		require.Equal(t, 2, f.effects(t, fmt.Sprint(i)), "one of the forgotten call, one of the new")
	}
	stop()
	require.ErrorIs(t, receive(t, ctx, swept), context.Canceled)
	require.Equal(t, keys, f.records(t))
}

// TestTwinOfBroken: an effect that ends its transaction frees its identity, and
// a twin may run before that can be recorded. Then the error says so.
func TestTwinOfBroken(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	peer := f.peer(t)
	tx := f.begin(t, ctx)
	_, err := dedup.DoTx(ctx, f.d, tx, call("k"), func(_ context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Conn().Exec(ctx, "COMMIT"); err != nil {
			return ticket{}, err
		}
		twin, err := dedup.Do(ctx, peer, call("k"), effect("k"))
		require.NoError(t, err)
		require.False(t, twin.Replayed)
		return ticket{}, nil
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
	require.ErrorContains(t, err, "a twin has run")

	replay, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
	require.NoError(t, err)
	require.True(t, replay.Replayed, "the twin's answer stands")
}

// TestUnreadableRecord: a record that cannot be read is not treated as missing. Its effect does not
// run again.
func TestUnreadableRecord(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.warm(t)
		f.exec(t, `UPDATE tool_dedup SET forget_at = 'infinity'`) // which no time.Time is

		runs := 0
		_, err := dedup.Do(ctx, f.d, call("warm"), func(context.Context, pgx.Tx) (ticket, error) {
			runs++
			return ticket{}, nil
		})
		require.ErrorContains(t, err, "bigint")
		require.Zero(t, runs)
		require.Equal(t, 1, f.effects(t, "warm"))
	})
}

func TestIsTransient(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"40001": true, "40P01": true, "55P03": true, "25006": true,
		"53100": true, "53200": true, "53300": true,
		"57P01": true, "57P02": true, "57P03": true, "57P04": true, "57P05": true,
		"08000": true, "08006": true, "08P01": true,
		"23505": false, "23514": false, "22P02": false, "42P01": false, "54000": false,
		"57014": false, "25P03": false, "25P02": false, "0A000": false, "XX000": false, "": false,
	} {
		require.Equal(t, want, dedup.IsTransient(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code})), code)
	}
	require.True(t, dedup.IsTransient(&pgconn.PgError{Code: "0A000", Routine: "RevalidateCachedQuery"}))
	require.True(t, dedup.IsTransient(&pgconn.PgError{Code: "XX000", File: "remote_commands.c"}), "Citus has lost a node")
	require.False(t, dedup.IsTransient(errors.New("no seat left")))
	require.False(t, dedup.IsTransient(nil))

	_, err := pgx.Connect(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.Error(t, err)
	require.True(t, dedup.IsTransient(err), "nobody listens there")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pgx.Connect(ended, "postgres://nobody@127.0.0.1:1/none")
	require.Error(t, err)
	require.False(t, dedup.IsTransient(err), "the caller gave up")
}

func TestIsRetryable(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		dedup.ErrInFlight, &dedup.Error{Kind: dedup.ErrOutcomeUnknown}, &dedup.Error{Kind: dedup.ErrAttemptsExhausted}, &dedup.Error{Kind: dedup.ErrRestartTx, Err: errors.New("x")},
		context.Canceled, context.DeadlineExceeded, &pgconn.PgError{Code: "40001"},
		// It may have happened, whatever ended the attempts.
		&dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: context.Canceled}, &dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: &dedup.InvalidError{Err: errors.New("x")}},
	} {
		require.True(t, dedup.IsRetryable(fmt.Errorf("wrapped: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, errors.New("no seat left"),
		&dedup.Error{Kind: dedup.ErrKeyReused}, &dedup.Error{Kind: dedup.ErrExpired}, &dedup.RefusedError{}, &dedup.InvalidError{What: "result", Err: errors.New("x")},
		&dedup.InvalidError{What: "call"}, &dedup.Error{Kind: dedup.ErrSchema}, guard.ErrTxControl, dedup.ErrInvalid,
		// An answer stays one whatever it wraps.
		&dedup.Error{Kind: dedup.ErrBroken, Err: context.DeadlineExceeded}, &dedup.Error{Kind: dedup.ErrBroken, Err: &pgconn.PgError{Code: "40001"}},
	} {
		require.False(t, dedup.IsRetryable(err), "%v", err)
	}
}

// TestSilentEffect: the server ends a transaction whose effect stays silent for too long. The call
// fails at once with that error, not with the error of a COMMIT whose answer was lost.
func TestSilentEffect(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t, nil)
	for _, order := range []orderKind{lockFirst, claimFirst} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(string(order)+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				pool := b.db.Pool(t, order.configure, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
				d := newDeduper(t, pool, &dedup.Options{IdleTimeout: 20 * time.Millisecond})
				runs := 0
				_, err := dedup.Do(ctx, d, call(t.Name()), func(ctx context.Context, tx pgx.Tx) (int, error) {
					runs++
					b.eventually(t, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, tx.Conn().PgConn().PID())
					return 1, nil
				})
				require.ErrorContains(t, err, "IdleTimeout")
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
				require.Equal(t, 1, runs)
				require.Zero(t, b.records(t))
			})
		}
	}
}

// requireNoSecret looks for a key in the clear in an error's text and in what
// the server added to it.
func requireNoSecret(t *testing.T, err error, secret string) {
	t.Helper()
	require.NotContains(t, err.Error(), secret)
	var server *pgconn.PgError
	if errors.As(err, &server) {
		require.NotContains(t, server.Detail, secret)
		require.NotContains(t, server.Where, secret)
		require.NotContains(t, server.Hint, secret)
	}
}

// TestErrorsDoNotTellTheKey: a violation of tool_dedup's key quotes the row.
func TestErrorsDoNotTellTheKey(t *testing.T) {
	t.Parallel()
	const secret = "SECRET"

	// The caller has gone when the record turns out to be a twin's.
	t.Run("Cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		claims := newDeduper(t, f.db.Pool(t, claimFirst.configure), nil)
		held := newGate()
		first := start(ctx, claims, call(secret), (&tool{ref: "k", then: held.then}).run)
		receive(t, ctx, held.entered)
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		late := start(short, f.d, call(secret), effect("k"))
		f.untilWaitingInside(t, 1)
		cancel()
		held.release()
		receive(t, ctx, first).require(t)
		err := receive(t, ctx, late).err
		require.ErrorIs(t, err, context.Canceled)
		requireState(t, err, "23505")
		requireNoSecret(t, err, secret)
	})

	t.Run("RestartTx", func(t *testing.T) {
		t.Parallel()
		p := profile{order: lockFirst, isolation: pgx.RepeatableRead}
		ctx, f := p.setup(t, nil)
		e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			return f.rival(ctx, call(secret), "k", ticket{ID: 99})
		}}
		_, err := dedup.DoTx(ctx, f.d, f.begin(t, ctx), call(secret), e.run)
		require.ErrorIs(t, err, dedup.ErrRestartTx)
		requireState(t, err, "23505")
		requireNoSecret(t, err, secret)
	})
}
