package external_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// lockTable blocks writes to a table, as CREATE INDEX does, until unlock is called.
func (f *fixture) lockTable(table string) (unlock func()) {
	f.t.Helper()
	tx := f.begin()
	_, err := tx.Exec(f.ctx, `LOCK TABLE `+table+` IN SHARE MODE`)
	require.NoError(f.t, err)
	return func() { require.NoError(f.t, tx.Rollback(f.ctx)) }
}

// TestTableIsLocked makes calls while another lock than a twin's is held, in sessions with a short
// lock_timeout. Before the claim, the error is not that a twin is in flight. An effect is recorded
// when the lock is released, and happens once.
func TestTableIsLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unlock, recording := func() {}, false
	retried := make(chan struct{}, 100)
	f.steps.onRetry(func() { retried <- struct{}{} })
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
		if recording {
			unlock = f.lockTable("tool_dedup")
		}
		return p.act(a.Key, i.Order), nil
	}})
	// Accept waits for such a lock as long as the session allows.
	f.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''20ms''', current_database()); END $$`)
	f.pool.Reset()
	unlock = f.lockTable("tool_effect")
	tx := f.begin()
	_, err := h.Accept(f.ctx, tx, call("accepted"), in{1})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
	require.NotErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, tx.Rollback(f.ctx))
	_, err = h.Do(f.ctx, impatient("claimed"), in{1})
	require.ErrorIs(t, err, dedup.ErrAttemptsExhausted)
	require.NotErrorIs(t, err, dedup.ErrInFlight)
	unlock()
	_, err = h.Do(f.ctx, call("claimed"), in{1})
	require.NoError(t, err)
	require.Equal(t, 1, p.effects())

	recording = true
	answer := make(chan error, 1)
	go func() {
		_, err := h.Do(f.ctx, call("recorded"), in{2})
		answer <- err
	}()
	<-retried
	unlock()
	require.NoError(t, <-answer)
	require.Equal(t, 2, p.effects())
	require.Equal(t, 2, f.steps.count(external.EventRecorded))
	require.Equal(t, external.StateDone, f.lookup("recorded").State)
}

// TestNewKeyMeetsALock holds another lock than a twin's, such as that of extending the table, for
// longer than a claim waits for a twin. A new key waits on without an error. A call's tries are
// bounded, also while they prepare, and it holds no connection between them.
func TestNewKeyMeetsALock(t *testing.T) {
	t.Parallel()
	other := newFixture(t)
	gaveUp := lockTimeouts(make(chan struct{}, 100))
	url := other.pool.Config().ConnString()
	pool := connect(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer = gaveUp })
	f := process(t, pool)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	for _, do := range []func() error{
		func() error {
			_, err := h.Do(f.ctx, call("claimed"), in{1})
			return err
		},
		func() error {
			return pgx.BeginFunc(f.ctx, pool, func(tx pgx.Tx) error {
				_, err := h.Accept(f.ctx, tx, call("accepted"), in{2})
				return err
			})
		},
	} {
		unlock, answer := other.lockTable("tool_effect"), make(chan error, 1)
		go func() { answer <- do() }()
		select {
		case <-gaveUp:
		case err := <-answer:
			require.NoError(t, err)
		}
		unlock()
		require.NoError(t, <-answer)
		for len(gaveUp) > 0 { // drain
			<-gaveUp
		}
	}

	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for _, traced := range []bool{false, true} {
			for _, warm := range []bool{false, true} {
				name := fmt.Sprint(mode, "/", traced, "/", warm)
				f := process(t, connect(t, url, func(c *pgxpool.Config) {
					c.MaxConns, c.ConnConfig.DefaultQueryExecMode = 1, mode
					if traced {
						c.ConnConfig.Tracer = lockTimeouts(make(chan struct{}, 100))
					}
				}))
				bounded, err := dedup.New(f.pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 3}})
				require.NoError(t, err)
				f.tools, err = external.New(bounded, nil)
				require.NoError(t, err)
				h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
				if warm {
					_, err = h.Do(f.ctx, call(name+" before"), in{3})
					require.NoError(t, err)
				}
				unlock := other.lockTable("tool_effect")
				_, err = h.Do(f.ctx, call(name), in{3})
				require.ErrorIs(t, err, dedup.ErrAttemptsExhausted, name)
				require.Zero(t, f.pool.Stat().AcquiredConns())
				unlock()
			}
		}
	}
}

// TestClaimIsCancelledAtItsLimit: PostgreSQL reports a claim as cancelled if the lock is granted
// just as its lock_timeout fires. A trigger raises that error here, after the limit: Do and Accept
// go on. A statement_timeout cancels every claim: its error ends the call.
func TestClaimIsCancelledAtItsLimit(t *testing.T) {
	t.Parallel()
	for _, citus := range []bool{false, true} {
		f := newFixture(t)
		if citus {
			playCitus(f)
		}
		p := newProvider()
		h := add(f, external.Tool[in, out]{Perform: p.perform})
		ways := map[string]func(pool *pgxpool.Pool, h *external.Handle[in, out], key string) error{
			"do": func(_ *pgxpool.Pool, h *external.Handle[in, out], key string) error {
				_, err := h.Do(f.ctx, call(key), in{1})
				return err
			},
			"accept": func(pool *pgxpool.Pool, h *external.Handle[in, out], key string) error {
				return pgx.BeginFunc(f.ctx, pool, func(tx pgx.Tx) error {
					_, err := h.Accept(f.ctx, tx, call(key), in{2})
					return err
				})
			},
		}
		f.exec(`CREATE SEQUENCE cancels; CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('cancels') = 1 THEN PERFORM pg_sleep(0.006); RAISE EXCEPTION 'cancelled' USING ERRCODE = '57014'; END IF;
			RETURN NEW; END $$;
			CREATE TRIGGER cancel BEFORE INSERT ON tool_effect FOR EACH ROW EXECUTE FUNCTION cancel()`)
		for key, way := range ways {
			f.exec(`ALTER SEQUENCE cancels RESTART`)
			require.NoError(t, way(f.pool, h, key), key)
		}
		f.until("accept", external.StateDone)
		require.Equal(t, 2, p.effects())

		f.exec(`CREATE OR REPLACE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$`)
		hasty := processWith(t, connect(t, f.pool.Config().ConnString(), func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["statement_timeout"] = "50"
		}), nil)
		h = add(hasty, external.Tool[in, out]{Perform: p.perform})
		for key, way := range ways {
			err := way(hasty.pool, h, "slow "+key)
			var server *pgconn.PgError
			require.ErrorAs(t, err, &server, key)
			require.Equal(t, "57014", server.Code, key)
			require.False(t, dedup.IsRetryable(err), key)
		}
	}
}

// lockTimeouts gets one element for each statement that gave up waiting for a lock.
type lockTimeouts chan struct{}

func (l lockTimeouts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (l lockTimeouts) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if server, ok := errors.AsType[*pgconn.PgError](data.Err); ok && server.Code == "55P03" {
		l <- struct{}{}
	}
}

// TestFinishMeetsALock has as many calls as the pool has connections wait in Finish and Refused for
// a locked row. They give up, their outcomes are kept, and another tool's call gets a connection.
func TestFinishMeetsALock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	f := processWith(t, connect(t, db.URL, func(c *pgxpool.Config) { c.MaxConns = 2 }), &external.Options{Lease: 2 * time.Second})
	locker := process(t, db.Pool(t))
	locker.exec(`CREATE TABLE balance AS SELECT 1 AS amount`)
	locked := locker.begin()
	_, err := locked.Exec(f.ctx, `SELECT FROM balance FOR UPDATE`)
	require.NoError(t, err)
	book := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE balance SET amount = amount + 1`)
		return err
	}
	h := add(f, external.Tool[in, out]{
		Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
			if i.Order == 2 {
				return out{}, errDeclined
			}
			return out{"ch_1"}, nil
		},
		Finish:  func(ctx context.Context, tx pgx.Tx, _ in, _ out) error { return book(ctx, tx) },
		Refused: func(ctx context.Context, tx pgx.Tx, _ in, _ error) error { return book(ctx, tx) },
	})
	verdicts := make(chan string, 2)
	for _, order := range []int{1, 2} {
		go func() {
			_, err := h.Do(f.ctx, call(fmt.Sprint(order)), in{order})
			var parked *external.ParkedError
			if errors.As(err, &parked) && strings.Contains(parked.Operation.Note, "longer than Options.Lease") {
				verdicts <- parked.Operation.Verdict
			} else {
				verdicts <- fmt.Sprint(err)
			}
		}()
	}
	locker.untilWaiting()
	other := process(t, f.pool) // its longer lease lets it wait until the others have given up
	_, err = add(other, external.Tool[in, out]{Name: "other", Perform: answering("ch_2")}).Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"happened", "refuse"}, []string{<-verdicts, <-verdicts})
	require.NoError(t, locked.Rollback(f.ctx))
	f.until("1", external.StateDone)
	f.until("2", external.StateDone)
}

// TestOutcomeOutlivesALongLock has an outcome that cannot be recorded, because Finish meets a lock
// that is held for longer than a parked operation is looked up. The pauses between the tries grow
// to 20 leases, also after errors of Finish that brought longer ones. The outcome is recorded
// afterwards.
func TestOutcomeOutlivesALongLock(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	f := processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease})
	f.makeLedger()
	locked := f.begin()
	_, err := locked.Exec(f.ctx, `LOCK TABLE ledger`)
	require.NoError(t, err)
	h := add(f, ledger(external.Tool[in, out]{KeyKept: external.Forever, Perform: answering("ch_1")}))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.Equal(t, 2*lease, nextAct(f.parkedBy(err, "longer than Options.Lease")))
	for _, c := range []struct {
		errors      int           // of Finish before
		kept        time.Duration // the age of the outcome, negative for a new one
		least, most time.Duration
	}{
		{0, -time.Hour, 2 * lease, 2 * lease}, {0, 10 * lease, 10 * lease, 20 * lease}, {0, time.Hour, 20 * lease, 20 * lease},
		{3, -time.Hour, 2 * lease, 2 * lease}, {3, time.Hour, 20 * lease, 20 * lease},
	} {
		f.exec(`UPDATE tool_effect SET tries = $1, changed_at = clock_timestamp() - $2::interval`, c.errors, c.kept)
		f.untilDue(f.lookup("k"))
		op, err := f.tools.Advance(f.ctx, "acme", "charge", "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, "happened", op.Verdict)
		next := nextAct(op)
		require.True(t, c.least <= next && next <= c.most, "%+v: %v", c, next)
		var tries int
		require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT tries FROM tool_effect`).Scan(&tries))
		require.Equal(t, c.errors, tries, "a temporary error does not count")
	}
	require.NoError(t, locked.Rollback(f.ctx))
	for f.lookup("k").State != external.StateDone { // a slow machine may need longer than the lease again
		f.untilDue(f.lookup("k"))
		_, err = f.tools.Advance(f.ctx, "acme", "charge", "k")
		require.True(t, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	require.Equal(t, []string{"finish ch_1"}, f.ledger(1))
}
