package external_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	f, h, jobs := enqueuing(t, enqueue)
	for n, c := range []struct {
		order int
		want  error
		state external.State
	}{{1, nil, external.StatePending}, {1, nil, external.StatePending}, {2, dedup.ErrKeyReused, external.StateNone}, {1, nil, external.StateDone}, {2, dedup.ErrKeyReused, external.StateNone}} {
		require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			op, err := h.Accept(f.ctx, tx, call("k"), in{c.order})
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.state, op.State)
			return nil
		}))
		require.Equal(t, "k", jobs())
		if n == 2 {
			require.Zero(t, f.steps.count(external.EventSending))
			require.Equal(t, external.StateDone, f.advance("k").State)
		}
	}
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.True(t, result.Replayed)
}

// TestAcceptAtAnOldSnapshot accepts an operation that was accepted after the transaction's
// snapshot.
func TestAcceptAtAnOldSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	old := f.begin(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err := old.Exec(f.ctx, `SELECT 1`)
	require.NoError(t, err)
	accept(f, h, "k", 1)
	_, err = h.Accept(f.ctx, old, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRestartTx)
}

// TestAcceptElsewhere accepts in a transaction of another database than the pool's. Nothing is
// written there, because no process would carry the operation out. A BeforeConnect may move the
// connections of a pool to another address.
func TestAcceptElsewhere(t *testing.T) {
	t.Parallel()
	db, other := pgtest.New(t), newFixture(t)
	server, err := pgx.ParseConfig(db.URL)
	require.NoError(t, err)
	moves := func(c *pgxpool.Config) {
		c.ConnConfig.Host = "moved.invalid"
		c.BeforeConnect = func(_ context.Context, to *pgx.ConnConfig) error {
			to.Host = server.Host
			return nil
		}
	}
	stays := func(*pgxpool.Config) {}
	for name, c := range map[string]struct {
		pool      func(*pgxpool.Config) // of the Deduper
		elsewhere bool                  // the transaction is of another database
	}{
		"Same":       {pool: stays},
		"Other":      {pool: stays, elsewhere: true},
		"Moved":      {pool: moves},
		"MovedOther": {pool: moves, elsewhere: true},
	} {
		f := process(t, connect(t, db.URL, c.pool))
		h, from := add(f, external.Tool[in, out]{Perform: answering("ch_1")}), f
		if c.elsewhere {
			from = other
		}
		require.NoError(t, pgx.BeginFunc(f.ctx, from.pool, func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call(name), in{1})
			if !c.elsewhere {
				return err
			}
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid, name)
			require.Equal(t, "call tx", invalid.What+" "+invalid.Field)
			require.Contains(t, invalid.Reason, "not of the database of the Deduper's pool")
			return nil
		}), name)
		var written int
		require.NoError(t, from.pool.QueryRow(f.ctx, `SELECT count(*) FROM tool_effect WHERE key = $1`, name).Scan(&written))
		require.Equal(t, c.elsewhere, written == 0, name)
	}
}

// TestInsideAnEffect accepts inside an effect of package dedup: the operation commits with the
// effect's writes and record, or not at all. Do and the other functions that send are refused
// there, because their answers could not be recorded.
func TestInsideAnEffect(t *testing.T) {
	t.Parallel()
	f, s := newFixture(t), &script{attempts: []answer{is("ch_1")}}
	h := add(f, s.tool(external.Tool[in, out]{}))
	accept(f, h, "before", 1)
	before := f.lookup("before")
	for key, fail := range map[string]error{"committed": nil, "rolled back": errLost} {
		_, err := dedup.Do(f.ctx, f.d, dedup.Call{Scope: "acme", Tool: "book", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := h.Do(ctx, call(key), in{1})
			require.ErrorIs(t, err, dedup.ErrInvalid)
			_, err = f.tools.Advance(ctx, "acme", "charge", "before")
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.ErrorIs(t, f.tools.Resolve(ctx, before, external.Refuse("no")), dedup.ErrInvalid)
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			require.ErrorIs(t, f.tools.Recover(limited), dedup.ErrInvalid)
			_, err = h.Accept(ctx, tx, call(key), in{1})
			require.NoError(t, err)
			return 1, fail
		})
		require.ErrorIs(t, err, fail)
	}
	require.Equal(t, external.StatePending, f.lookup("committed").State)
	require.Equal(t, external.StateNone, f.lookup("rolled back").State)
	require.Equal(t, before.Fence, f.lookup("before").Fence)
	sent, _ := s.count()
	require.Zero(t, sent)
}

// enqueuing returns a process with an Enqueue function. jobs returns the committed jobs.
func enqueuing(t *testing.T, enqueue func(ctx context.Context, tx pgx.Tx, op external.Operation) error) (f *fixture, h *external.Handle[in, out], jobs func() string) {
	t.Helper()
	f = processWith(t, pgtest.New(t).Pool(t), &external.Options{Lease: lease, Enqueue: enqueue})
	f.exec(`CREATE TABLE job (key text)`)
	return f, add(f, external.Tool[in, out]{Perform: answering("ch_1")}), func() (keys string) {
		require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT coalesce(string_agg(key, ' ' ORDER BY key), '') FROM job`).Scan(&keys))
		return keys
	}
}

func enqueue(ctx context.Context, tx pgx.Tx, op external.Operation) error {
	_, err := tx.Exec(ctx, `INSERT INTO job VALUES ($1)`, op.Key)
	return err
}

// TestAcceptEnds ends Accept in every way. After a failure nothing of it is left, and the caller's
// transaction stays usable. Its savepoint is released, so it cannot undo later writes of the
// caller.
func TestAcceptEnds(t *testing.T) {
	t.Parallel()
	full := errors.New("the queue is full")
	leaves, leave := context.WithCancel(t.Context())
	f, h, jobs := enqueuing(t, func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		if err := enqueue(ctx, tx, op); err != nil {
			return err
		}
		switch op.Key {
		case "full":
			return full
		case "raises":
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		case "locked":
			_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1ms'; UPDATE job SET key = key WHERE key = 'another'`)
			return err
		case "panics":
			panic("a bug")
		case "left":
			leave()
			return ctx.Err()
		}
		return nil
	})
	_, err := h.Do(f.ctx, call("done"), in{1})
	require.NoError(t, err)
	f.exec(`INSERT INTO job VALUES ('another')`)
	on(f, "INSERT", "WHEN (NEW.key = 'invalid')", "23514")
	elsewhere := f.begin()
	_, err = elsewhere.Exec(f.ctx, `UPDATE job SET key = key`)
	require.NoError(t, err)
	_, err = h.Accept(f.ctx, elsewhere, call("held"), in{1})
	require.NoError(t, err)

	tx := f.begin()
	_, err = tx.Exec(f.ctx, `INSERT INTO job VALUES ('mine')`)
	require.NoError(t, err)
	for _, c := range []struct {
		key   string
		order int
		is    error
		says  string
	}{
		{"raises", 1, nil, "SQLSTATE 22012"},
		{"full", 1, full, ""},
		{"locked", 1, nil, "SQLSTATE 55P03"},
		{"panics", 1, nil, "panic: a bug"},
		{"left", 1, context.Canceled, ""},
		{"invalid", 1, nil, "SQLSTATE 23514"},
		{"held", 1, dedup.ErrInFlight, ""},
		{"done", 1, nil, ""},
		{"done", 2, dedup.ErrKeyReused, ""},
		{"fine", 1, nil, ""},
		{"fine", 1, nil, ""},
	} {
		ctx := f.ctx
		if c.key == "left" {
			ctx = leaves
		}
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			_, err = h.Accept(ctx, tx, call(c.key), in{c.order})
			return err
		}()
		if c.says == "" {
			require.ErrorIs(t, err, c.is, c.key)
		} else {
			require.ErrorContains(t, err, c.says, c.key)
		}
		require.Equal(t, c.key == "held", errors.Is(err, dedup.ErrInFlight), "whether somebody else has the key %q", c.key)
		require.Equal(t, c.key == "locked" || c.key == "held", dedup.IsTransient(err), "whether Deduper.BeginFunc runs the transaction of %q again", c.key)
		// This savepoint undoes the probe for Accept's.
		_, err = tx.Exec(f.ctx, `SAVEPOINT mine`)
		require.NoError(t, err, c.key)
		_, err = tx.Exec(f.ctx, `RELEASE SAVEPOINT tool_effect`)
		require.ErrorContains(t, err, "3B001", c.key)
		_, err = tx.Exec(f.ctx, `ROLLBACK TO mine; RELEASE SAVEPOINT mine`)
		require.NoError(t, err, c.key)
	}
	require.NoError(t, tx.Commit(f.ctx))
	require.NoError(t, elsewhere.Rollback(f.ctx))
	require.Equal(t, "another fine mine", jobs())
	for _, key := range []string{"raises", "full", "locked", "panics", "left", "invalid", "held"} {
		require.Equal(t, external.StateNone, f.lookup(key).State, key)
	}
	require.Equal(t, external.StatePending, f.lookup("fine").State)

	_, err = h.Accept(f.ctx, tx, call("closed"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	_, err = h.Accept(f.ctx, nil, call("nil"), in{2})
	require.ErrorIs(t, err, dedup.ErrInvalid)
}
