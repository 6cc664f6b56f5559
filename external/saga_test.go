package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

func TestSaga(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log []string
	outcome := map[string]error{}
	tool := func(name string) func(context.Context) error {
		h := add(f, external.Tool[in, out]{Name: name, Perform: func(context.Context, external.Attempt, in) (out, error) {
			log = append(log, name)
			return out{name}, outcome[name]
		}})
		return func(ctx context.Context) error {
			_, err := h.Do(ctx, call("order-1"), in{1})
			return err
		}
	}
	steps := []external.Step{
		{Name: "reserve", Do: tool("reserve"), Undo: tool("release")},
		{Name: "charge", Do: tool("charge"), Undo: tool("refund")},
		{Name: "note", Do: tool("note")},
		{Name: "ship", Do: tool("ship"), Undo: tool("unship")},
	}
	outcome["ship"] = errLost
	err := external.Saga(f.ctx, steps...)
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.NotErrorIs(t, err, dedup.ErrRefused)
	require.Equal(t, []string{"reserve", "charge", "note", "ship"}, log, "what may still happen is not compensated")

	status, err := f.tools.Status(f.ctx, "acme", "ship", "order-1")
	require.NoError(t, err)
	op := status.Operation
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Refuse("the truck is full")))
	outcome["refund"] = errLost
	err = external.Saga(f.ctx, steps...)
	require.ErrorContains(t, err, `taking back step "charge"`)
	require.NotErrorIs(t, err, dedup.ErrRefused)
	status, err = f.tools.Status(f.ctx, "acme", "refund", "order-1")
	require.NoError(t, err)
	op = status.Operation
	outcome["refund"] = nil
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Never("not in the books")))
	for range 2 {
		var undone *external.UndoneError
		err = external.Saga(f.ctx, steps...)
		require.ErrorAs(t, err, &undone)
		require.Equal(t, "ship", undone.Step)
		require.Equal(t, "the truck is full", undone.Refusal.Message)
		require.ErrorIs(t, err, dedup.ErrRefused)
	}
	require.Equal(t, []string{"reserve", "charge", "note", "ship", "refund", "refund", "release"}, log)
}

// TestSagaIsNotTakenBack has an Undo that is not finished. Every call of the saga returns an error
// that names it, so that the caller can call again. If the Undo is refused, the steps before it are
// taken back, and the saga's error is not a refusal.
func TestSagaIsNotTakenBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why    error
		undone []string
	}{
		"parked":    {&external.ParkedError{}, []string{"pack", "charge"}},
		"in flight": {dedup.ErrInFlight, []string{"pack", "charge"}},
		"refused":   {&dedup.RefusedError{Message: "the card has expired"}, []string{"pack", "charge", "reserve"}},
	} {
		var undone []string
		step := func(name string, undo error) external.Step {
			return external.Step{Name: name, Do: func(context.Context) error { return nil }, Undo: func(context.Context) error {
				undone = append(undone, name)
				return undo
			}}
		}
		for range 2 {
			undone = nil
			err := external.Saga(t.Context(), step("reserve", nil), step("charge", c.why), step("pack", nil),
				external.Step{Name: "ship", Do: func(context.Context) error { return &dedup.RefusedError{Message: "no"} }})
			require.ErrorContains(t, err, `taking back step "charge": `+c.why.Error())
			require.NotErrorIs(t, err, dedup.ErrRefused)
			require.NotErrorAs(t, err, new(*external.UndoneError))
			require.Equal(t, name != "refused", errors.Is(err, c.why), name)
			require.Equal(t, c.undone, undone, name)
		}
	}
}

// TestSagaGoesOn has the caller of a saga die. The saga is a tool, which Advance continues.
func TestSagaGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dies := true
	var log []string
	step := func(f *fixture, name string, err error) func(context.Context) error {
		h := add(f, external.Tool[in, out]{Name: name, Perform: func(context.Context, external.Attempt, in) (out, error) {
			log = append(log, name)
			return out{name}, err
		}})
		return func(ctx context.Context) error {
			_, err := h.Do(ctx, call("order-1"), in{1})
			return err
		}
	}
	saga := func(f *fixture) *external.Handle[in, out] {
		steps := []external.Step{
			{Name: "charge", Do: step(f, "pay", nil), Undo: step(f, "refund", nil)},
			{Name: "ship", Do: step(f, "ship", dedup.Final(errors.New("the truck is full")))},
		}
		return add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: func(ctx context.Context, a external.Attempt, i in) (out, error) {
			err := external.Saga(ctx, steps...)
			if dies {
				panic("the process dies")
			}
			if errors.As(err, new(*external.UndoneError)) {
				err = dedup.Final(err)
			}
			return out{a.Key}, err
		}})
	}
	_, err := saga(f).Do(f.ctx, impatient("order-1"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	dies = false
	later := process(t, f.pool)
	saga(later)
	later.until("order-1", external.StateDone)
	_, err = saga(process(t, f.pool)).Do(f.ctx, call("order-1"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.ErrorContains(t, err, "the truck is full")
	require.Equal(t, []string{"pay", "ship", "refund"}, log)
}

// TestSagaOfAnotherRelease has a release with another order of the steps continue a saga. A refused
// step takes back the steps before it in the release's own order. With the original order, all
// steps are taken back.
func TestSagaOfAnotherRelease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var log []string
	does := func(name string, err error) func(context.Context) error {
		return func(context.Context) error {
			log = append(log, name)
			return err
		}
	}
	charge := external.Step{Name: "charge", Do: does("charge", nil), Undo: does("refund", nil)}
	require.ErrorIs(t, external.Saga(f.ctx, charge, external.Step{Name: "ship", Do: does("ship", errLost)}), errLost)
	ship := external.Step{Name: "ship", Do: does("ship", &dedup.RefusedError{Message: "the truck is full"})}
	require.ErrorAs(t, external.Saga(f.ctx, ship, charge), new(*external.UndoneError))
	require.NotContains(t, log, "refund")
	require.ErrorAs(t, external.Saga(f.ctx, charge, ship), new(*external.UndoneError))
	require.Contains(t, log, "refund")
}
