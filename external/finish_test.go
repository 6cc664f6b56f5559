package external_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestFinishFailsForGood has Finish fail each time with an error that looks like the database's,
// while its transaction is intact. The error is Finish's own: Finish does not run again in the same
// act, and its tries end after those of a parked operation.
func TestFinishFailsForGood(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	ledger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(ledger.Close)
	for name, fails := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"a service's deadline": func(context.Context, pgx.Tx) error { return fmt.Errorf("ledger: %w", context.DeadlineExceeded) },
		"a service's end":      func(context.Context, pgx.Tx) error { return fmt.Errorf("ledger: %w", context.Canceled) },
		"a service's hang-up": func(context.Context, pgx.Tx) error {
			_, err := ledger.Client().Post(ledger.URL, "", nil) //nolint:bodyclose // there is no answer
			require.ErrorIs(t, err, io.EOF)
			return err
		},
		"another call's answer": func(context.Context, pgx.Tx) error { return dedup.ErrInFlight },
		"another schema":        func(context.Context, pgx.Tx) error { return dedup.ErrSchema },
		"a statement's error": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return err
		},
		"another database's limit": func(context.Context, pgx.Tx) error { return &pgconn.PgError{Code: "57014"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, runs := process(t, shared.pool), 0
			h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: answering("ch_1"), Finish: func(ctx context.Context, tx pgx.Tx, _ in, _ out) error {
				runs++
				return fails(ctx, tx)
			}})
			_, err := h.Do(f.ctx, call(name), in{1})
			op := f.parkedBy(err, "cannot be recorded")
			for n, leases := range []time.Duration{2, 20, 200, 2880} {
				require.Equal(t, n+1, runs)
				require.Equal(t, leases*lease, nextAct(op))
				f.untilDue(op)
				op, err = f.tools.Advance(f.ctx, "acme", "charge", name)
				require.Error(t, err)
			}
			require.True(t, op.Due.IsZero())
			require.Equal(t, "happened", op.Verdict)
			require.Equal(t, 5, runs)
		})
	}
}

// TestFinishOutlastsItsTime has Finish and Refused wait for a service until their time has passed,
// and return nil or the context's error. That is their own error, so the tries end.
func TestFinishOutlastsItsTime(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for name, c := range map[string]struct {
		perform func(context.Context, external.Attempt, in) (out, error)
		returns func(ctx context.Context) error
	}{
		"Finish/Nil":    {answering("ch_1"), func(context.Context) error { return nil }},
		"Finish/Error":  {answering("ch_1"), context.Context.Err},
		"Refused/Nil":   {func(context.Context, external.Attempt, in) (out, error) { return out{}, errDeclined }, func(context.Context) error { return nil }},
		"Refused/Error": {func(context.Context, external.Attempt, in) (out, error) { return out{}, errDeclined }, context.Context.Err},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := processWith(t, shared.pool, &external.Options{Lease: 500 * time.Millisecond})
			var runs atomic.Int64
			wait := func(ctx context.Context) error {
				if runs.Add(1) > 5 {
					return nil // so that the test ends
				}
				<-ctx.Done()
				return c.returns(ctx)
			}
			h := add(f, external.Tool[in, out]{
				KeyKept: external.Forever, Perform: c.perform,
				Finish:  func(ctx context.Context, _ pgx.Tx, _ in, _ out) error { return wait(ctx) },
				Refused: func(ctx context.Context, _ pgx.Tx, _ in, _ error) error { return wait(ctx) },
			})
			_, err := h.Do(f.ctx, call(name), in{1})
			op := f.parkedBy(err, "longer than Options.Lease")
			for !op.Due.IsZero() { // a slow machine may also need longer for the database
				f.untilDue(op)
				op, _ = f.tools.Advance(f.ctx, "acme", "charge", name)
			}
			require.Equal(t, external.StateParked, op.State)
			require.NotEmpty(t, op.Verdict)
			require.EqualValues(t, 5, runs.Load())
		})
	}
}

// TestOutcomeIsTriedAnew has Finish fail with an outcome that became known after the last look-ups
// of a parked operation. The outcome has tries of its own.
func TestOutcomeIsTriedAnew(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for name, learn := range map[string]func(f *fixture) error{
		"ALateSuccess": func(f *fixture) error {
			f.exec(`UPDATE tool_effect SET tries = 3 WHERE key = 'ALateSuccess'`)
			f.untilDue(f.lookup("ALateSuccess"))
			_, err := f.tools.Advance(f.ctx, "acme", "charge", "ALateSuccess")
			return err
		},
		"AVerdict": func(f *fixture) error {
			f.exec(`UPDATE tool_effect SET tries = 4, due_at = NULL WHERE key = 'AVerdict'`)
			return f.tools.Resolve(f.ctx, f.lookup("AVerdict"), external.Happened(out{"ch_1"}, "in the books"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := process(t, shared.pool), &script{attempts: []answer{fails(errLost)}, looks: []answer{is()}}
			closed := true
			h := add(f, s.tool(external.Tool[in, out]{Finish: func(context.Context, pgx.Tx, in, out) error {
				if closed {
					return errors.New("the ledger is closed")
				}
				return nil
			}}))
			_, err := h.Do(f.ctx, call(name), in{1})
			parked := f.parkedBy(err, "not found")
			s.looks = []answer{is("ch_1")}
			require.ErrorContains(t, learn(f), "the ledger is closed")
			op := f.lookup(name)
			require.Equal(t, "happened", op.Verdict)
			require.LessOrEqual(t, nextAct(op), 20*lease)
			require.True(t, op.ChangedAt.After(parked.ChangedAt))
			closed = false
			f.until(name, external.StateDone)
		})
	}
}
