package external_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// zombie makes a call whose first attempt ignores its context and outlives its lease. meanwhile
// runs before the attempt returns.
func zombie(f *fixture, key string, tool external.Tool[in, out], answer func(try int) (out, error), meanwhile func(*external.Handle[in, out])) *external.Handle[in, out] {
	f.t.Helper()
	var mu sync.Mutex
	tries := 0
	entered, hold := make(chan struct{}), make(chan struct{})
	tool.Perform = func(context.Context, external.Attempt, in) (out, error) {
		mu.Lock()
		tries++
		try := tries
		mu.Unlock()
		if try == 1 {
			close(entered)
			<-hold
		}
		return answer(try)
	}
	// The zombie's process cannot extend its lease, because it cannot reach the database.
	h := add(f, tool)
	other := process(f.t, f.pool)
	other.noRef = f.noRef
	second := add(other, tool)
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = h.Do(f.ctx, call(key), in{1}) })
	<-entered
	f.exec(`UPDATE tool_effect SET due_at = clock_timestamp(), sent_until = clock_timestamp(), fence = fence + 1 WHERE key = $1`, key)
	other.advance(key)
	meanwhile(second)
	close(hold)
	calls.Wait()
	require.NoError(f.t, f.tools.Close(f.ctx)) // waits for the zombie
	return second
}

// TestZombies has other processes act while a first attempt runs past its lease. Its success is
// recorded: it answers a parked operation, and is reported beside another answer. Its failure
// changes nothing.
func TestZombies(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	failOnce(shared, "NEW.key = 'Twice/ReportMeetsAFault' AND NEW.twice IS NOT NULL")
	each := func(try int) (out, error) { return out{fmt.Sprint("z", try)}, nil }
	fails := func(err error) func(int) (out, error) { return func(int) (out, error) { return out{}, err } }
	same := func(int) (out, error) { return out{"z1"}, nil }
	never, refuse := external.Never("not seen"), external.Refuse("not seen")
	for name, c := range map[string]struct {
		tool    external.Tool[in, out]
		noRef   bool
		answer  func(try int) (out, error)
		taken   external.State    // the state that the other process leaves
		verdict *external.Verdict // a wrong verdict, if any; it is carried out
		result  string            // empty if refused or parked
		twice   string
		state   external.State
	}{
		"Unparks":                 {answer: same, taken: external.StateParked, result: "z1", state: external.StateDone},
		"WithAKey":                {tool: external.Tool[in, out]{KeyKept: external.Forever}, answer: same, taken: external.StateDone, result: "z1", state: external.StateDone},
		"Twice/Never":             {answer: each, taken: external.StateParked, verdict: &never, result: "z2", twice: "z1", state: external.StateDone},
		"Twice/Refuse":            {answer: each, taken: external.StateParked, verdict: &refuse, twice: "z1", state: external.StateDone},
		"Twice/NeverWithoutRef":   {answer: each, noRef: true, taken: external.StateParked, verdict: &never, result: "z2", twice: "(none)", state: external.StateDone},
		"Twice/RefuseWithoutRef":  {answer: each, noRef: true, taken: external.StateParked, verdict: &refuse, twice: "(none)", state: external.StateDone},
		"Twice/ReportMeetsAFault": {answer: each, taken: external.StateParked, verdict: &never, result: "z2", twice: "z1", state: external.StateDone},
		"Fails/NotDone":           {answer: fails(external.NotDone(errLost)), taken: external.StateParked, state: external.StateParked},
		"Fails/Final":             {answer: fails(dedup.Final(errLost)), taken: external.StateParked, state: external.StateParked},
		"Fails/Unknown":           {answer: fails(errLost), taken: external.StateParked, state: external.StateParked},
		"NotRecordable": {
			tool:   external.Tool[in, out]{Finish: func(context.Context, pgx.Tx, in, out) error { return errors.New("the ledger is closed") }},
			answer: same, taken: external.StateParked, state: external.StateParked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := process(t, shared.pool)
			f.noRef = c.noRef
			h := zombie(f, name, c.tool, c.answer, func(h *external.Handle[in, out]) {
				require.Equal(t, c.taken, f.lookup(name).State)
				if c.verdict == nil {
					return
				}
				command := process(t, shared.pool)
				if name == "Twice/Never" { // the zombie's own process waits for it until its lease ends
					command = f
				}
				require.NoError(t, command.tools.Resolve(f.ctx, f.lookup(name), *c.verdict))
				for f.lookup(name).State != external.StateDone { // the zombie's caller may carry it out
					_, _ = h.Do(f.ctx, call(name), in{1})
				}
			})
			result, err := h.Do(f.ctx, call(name), in{1})
			op := f.lookup(name)
			require.Equal(t, c.state, op.State)
			require.Equal(t, c.result, result.Value.ID)
			require.Equal(t, c.twice, op.Twice)
			require.Equal(t, c.twice != "", f.steps.count(external.EventTwice) == 1)
			switch {
			case c.state == external.StateParked:
				require.ErrorAs(t, err, new(*external.ParkedError))
			case c.result == "":
				require.ErrorIs(t, err, dedup.ErrRefused)
			default:
				require.NoError(t, err)
			}
			switch name {
			case "NotRecordable":
				require.Equal(t, "z1", op.Ref, "it happened all the same")
			case "Fails/NotDone", "Fails/Final", "Fails/Unknown":
				require.NotZero(t, f.steps.count(external.EventFenced))
			}
			listed := map[string]string{}
			for _, op := range f.parked(f.ctx) {
				listed[op.Key] = op.Twice
			}
			twice, ok := listed[name]
			require.Equal(t, c.twice != "" || c.state == external.StateParked, ok)
			require.Equal(t, c.twice, twice)
		})
	}
}

// TestTwiceIsFoundAndCleared finds two effects. The second is reported in the transaction of the
// first one's record, because no look-up follows. The operation is listed until an operator clears
// it.
func TestTwiceIsFoundAndCleared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &script{attempts: []answer{fails(errLost)}, looks: []answer{is("ch_1", "ch_2")}}
	h := add(f, s.tool(external.Tool[in, out]{}))
	var twice string
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventRecorded {
			twice = f.lookup("k").Twice
		}
	})
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, "ch_2", twice)
	require.Equal(t, 1, f.steps.count(external.EventTwice))
	op := f.lookup("k")
	require.Equal(t, "ch_2", op.Twice)
	require.ErrorIs(t, f.tools.Resolve(f.ctx, op, external.Never("no")), dedup.ErrInvalid)
	stale := op
	stale.Twice = "ch_2 ch_3"
	require.ErrorIs(t, f.tools.Resolve(f.ctx, stale, external.Cleared("both are refunded")), dedup.ErrInFlight)
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Cleared("ch_2 is refunded").By("ada")))
	require.Empty(t, f.parked(f.ctx), "it is still listed")
	op = f.lookup("k")
	require.ErrorIs(t, f.tools.Resolve(f.ctx, op, external.Cleared("again")), dedup.ErrInvalid)
	again, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, result.Value, again.Value)
	require.Equal(t, []string{"ada cleared acme charge done ch_2 is refunded t t"}, f.audited("k"))
}

// TestRefsAreListedOnce has effects that are found before there is an answer and cannot be
// recorded. They stay listed beside another answer. The answer's ref is not a further effect, and
// each further one is listed once.
func TestRefsAreListedOnce(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	happened, never, refused := external.Happened(out{"ch_2"}, "seen"), external.Never("not seen"), external.Refuse("not wanted")
	for name, c := range map[string]struct {
		twice   any
		verdict external.Verdict
		ref     string
		want    string
	}{
		"AnswerWasFurther": {"ch_2", happened, "ch_2", "ch_1"},
		"OneOfSeveral":     {"ch_3 ch_2 ch_4", happened, "ch_2", "ch_3 ch_4 ch_1"},
		"PartOfARef":       {"ch_22", happened, "ch_2", "ch_22 ch_1"},
		"None":             {nil, happened, "ch_2", "ch_1"},
		"Never":            {nil, never, "ch_2", "ch_1"},
		"KnownAsFurther":   {"ch_1", happened, "ch_2", "ch_1"},
		"RefusedAlone":     {nil, refused, "", "ch_1"},
		"Refused":          {"ch_1 ch_2", refused, "", "ch_1 ch_2"},
		"RefusedWithMore":  {"ch_2", refused, "", "ch_2 ch_1"},
	} {
		f, s, bad := process(t, shared.pool), &script{attempts: []answer{is("ch_1"), is("ch_2")}}, true
		h := add(f, s.tool(external.Tool[in, out]{Finish: func(context.Context, pgx.Tx, in, out) error {
			if bad {
				return errors.New("the ledger is closed")
			}
			return nil
		}}))
		_, err := h.Do(f.ctx, call(name), in{1})
		f.parkedBy(err, "the ledger is closed")
		bad = false
		f.exec(`UPDATE tool_effect SET twice = $1 WHERE key = $2`, c.twice, name)
		var decided *external.VerdictError
		require.ErrorAs(t, f.tools.Resolve(f.ctx, f.lookup(name), c.verdict), &decided)
		require.Equal(t, "happened", decided.Operation.Verdict)
		require.NoError(t, f.tools.Resolve(f.ctx, f.lookup(name), c.verdict.Overruling()))
		op := f.lookup(name)
		require.Equal(t, external.StateDone, op.State, name)
		require.Equal(t, c.ref, op.Ref, name)
		require.Equal(t, c.want, op.Twice, name)
	}
}

// TestWrongVerdictsAreFoundOut rechecks a refusal that relies on a wrong verdict: nothing had
// happened, an operator said.
func TestWrongVerdictsAreFoundOut(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	for name, verdict := range map[string]external.Verdict{"Refuse": external.Refuse("not seen"), "Never": external.Never("not seen")} {
		f := process(t, shared.pool)
		s := &script{attempts: []answer{fails(errLost), fails(errDeclined)}, looks: []answer{is()}}
		h := add(f, s.tool(external.Tool[in, out]{}))
		_, err := h.Do(f.ctx, call(name), in{1})
		f.parkedBy(err, "not found")
		require.NoError(t, f.tools.Resolve(f.ctx, f.lookup(name), verdict))
		_, err = h.Do(f.ctx, call(name), in{1})
		require.ErrorIs(t, err, dedup.ErrRefused)
		s.looks = []answer{is("ch_1")} // the first attempt's late effect
		f.untilDue(f.lookup(name))
		require.Equal(t, "ch_1", f.advance(name).Twice, name)
	}
}
