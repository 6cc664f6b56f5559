package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestFinishFailsWithARefusal is a success whose local writes are refused by another tool: it
// is no refusal of the call, and did not happen twice.
func TestFinishFailsWithARefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{
		Perform: answering("ch_1"),
		Finish: func(ctx context.Context, tx pgx.Tx, _ in, _ out) error {
			_, err := dedup.DoTx(ctx, f.d, tx, dedup.Call{Scope: "acme", Tool: "ledger", Key: "k"}, func(context.Context, pgx.Tx) (int, error) {
				return 0, dedup.Final(errors.New("the ledger is closed"))
			})
			return err
		},
	})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NotErrorIs(t, err, dedup.ErrRefused)
	require.ErrorAs(t, err, new(*external.ParkedError))
	op := f.lookup("k")
	require.Equal(t, external.Parked, op.State)
	require.Equal(t, "ch_1", op.Ref)
	require.Empty(t, op.Twice)
}

// TestRefusedFailsWithTheRefusal is a refusal whose local writes fail: nothing is recorded,
// so that it is not the answer.
func TestRefusedFailsWithTheRefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			return out{}, dedup.Final(errors.New("declined"))
		},
		Refused: func(_ context.Context, _ pgx.Tx, _ in, why error) error { return why },
	})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NotErrorIs(t, err, dedup.ErrRefused)
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.Equal(t, "refuse", f.lookup("k").Verdict)
}

// TestFinalFaultIsUnknown is a refusal that is a fault of some database: it is no answer, and
// nobody tries for ever to record it.
func TestFinalFaultIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		return out{}, dedup.Final(&pgconn.PgError{Code: "40001"})
	}})
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	_, err := h.Do(ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
}

// panics is a result that cannot be handled.
type panics struct{ ID string }

func (panics) MarshalJSON() ([]byte, error) { panic("a bug") }
func (*panics) UnmarshalJSON([]byte) error  { panic("a bug") }

// refuses is a refusal that cannot be handled.
type refuses struct{}

func (refuses) Error() string { return "declined" }
func (refuses) Code() string  { panic("a bug") }

// TestPanics is every callback that runs outside of the caller's goroutine: none of them
// ends the process, which alone may know an answer.
func TestPanics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	odd, err := external.Add(f.tools, external.Tool[in, panics]{
		Name: "odd", Ref: func(p panics) string { return p.ID }, KeyKept: external.Forever,
		Perform: func(context.Context, external.Attempt, in) (panics, error) { return panics{"ch_1"}, nil },
	})
	require.NoError(t, err)
	var parked *external.ParkedError
	_, err = odd.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Equal(t, "ch_1", parked.Operation.Ref)
	require.ErrorIs(t, f.tools.Resolve(f.ctx, parked.Operation, external.Happened(json.RawMessage(`{}`), "seen")), dedup.ErrInvalid)

	declines := add(f, external.Tool[in, out]{Name: "declines", Perform: func(context.Context, external.Attempt, in) (out, error) {
		return out{}, dedup.Final(refuses{})
	}})
	_, err = declines.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)

	looks := add(f, external.Tool[in, out]{
		Name: "looks", Ref: func(out) string { panic("a bug") },
		Find:    func(context.Context, external.Attempt, in) ([]out, error) { panic("a bug") },
		Perform: losing,
		Refused: func(context.Context, pgx.Tx, in, error) error { panic("a bug") },
	})
	waits := call("k")
	waits.MaxWait = lease / 4
	_, err = looks.Do(f.ctx, waits, in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
}

// TestAdvanceInsideAnEffect is refused before anything is sent: nothing could be recorded.
func TestAdvanceInsideAnEffect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var attempts atomic.Int32
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		attempts.Add(1)
		return out{"ch_1"}, nil
	}})
	accept(f, h, "k", 1)
	op := f.lookup("k")
	_, err := dedup.Do(f.ctx, f.d, dedup.Call{Scope: "acme", Tool: "book", Key: "k"}, func(ctx context.Context, _ pgx.Tx) (int, error) {
		_, err := f.tools.Advance(ctx, "acme", "charge", "k")
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.ErrorIs(t, f.tools.Resolve(ctx, op, external.Refuse("no")), dedup.ErrInvalid)
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		require.ErrorIs(t, f.tools.Recover(ctx), dedup.ErrInvalid)
		return 1, nil
	})
	require.NoError(t, err)
	require.Zero(t, attempts.Load())
	require.Equal(t, op.Fence, f.lookup("k").Fence)
}
