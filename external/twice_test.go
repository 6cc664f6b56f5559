package external_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestTwiceIsReportedWithTheRecord finds two effects: the report of the second is committed
// with the record of the first, since nobody looks again.
func TestTwiceIsReportedWithTheRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Find: lookUp, Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		p.act("", i.Order)
		p.act("", i.Order)
		return out{}, errLost
	}})
	var twice string
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventRecorded {
			twice = f.lookup("k").Twice
		}
	})
	result, err := h.Do(context.WithValue(f.ctx, providerKey{}, p), call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, "ch_2", twice)
	require.NoError(t, f.tools.Close(f.ctx))
	require.Equal(t, "ch_2", f.lookup("k").Twice)
	require.Equal(t, 1, f.steps.count(external.EventTwice))
}

// TestTwiceIsInsistedOn meets a fault that passes when a second effect is reported.
func TestTwiceIsInsistedOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	zombie(f, external.Tool[in, out]{}, func(try int) (out, error) { return out{fmt.Sprint("z", try)}, nil }, func(h *external.Handle[in, out]) {
		require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Never("not seen")))
		for f.lookup("k").State != external.Done {
			_, _ = h.Do(f.ctx, call("k"), in{1})
		}
		failOnce(f, "NEW.twice IS NOT NULL")
	})
	require.Equal(t, "z1", f.lookup("k").Twice)
}

// TestTwiceWithoutARef is a tool that has no Ref: a late success beside another answer is
// reported all the same.
func TestTwiceWithoutARef(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]external.Verdict{"Never": external.Never("not seen"), "Refuse": external.Refuse("not seen")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.noRef = true
			h := zombie(f, external.Tool[in, out]{}, func(try int) (out, error) { return out{fmt.Sprint("z", try)}, nil }, func(h *external.Handle[in, out]) {
				require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), verdict))
				for f.lookup("k").State != external.Done {
					_, _ = h.Do(f.ctx, call("k"), in{1})
				}
			})
			_, _ = h.Do(f.ctx, call("k"), in{1})
			require.NotEmpty(t, f.lookup("k").Twice)
			require.Equal(t, 1, f.steps.count(external.EventTwice))
		})
	}
}

// TestKnownRefIsKept is an effect that is known by its ref and could not be recorded. Another
// answer does not hide it.
func TestKnownRefIsKept(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]external.Verdict{
		"Refuse": external.Refuse("not seen"), "Happened": external.Happened(out{"ch_9"}, "seen"), "Never": external.Never("not seen"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			n, bad := 0, true
			h := add(f, external.Tool[in, out]{
				Perform: func(context.Context, external.Attempt, in) (out, error) {
					n++
					return out{fmt.Sprint("ch_", n)}, nil
				},
				Finish: finishing(&bad),
			})
			_, err := h.Do(f.ctx, call("k"), in{1})
			require.ErrorAs(t, err, new(*external.ParkedError))
			bad = false
			var decided *external.VerdictError
			require.ErrorAs(t, f.tools.Resolve(f.ctx, f.lookup("k"), verdict), &decided)
			require.Equal(t, "happened", decided.Operation.Verdict)
			require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), verdict.Overruling()))
			for f.lookup("k").State != external.Done {
				_, _ = h.Do(f.ctx, call("k"), in{1})
			}
			require.Equal(t, "ch_1", f.lookup("k").Twice)
		})
	}
}

// TestZombieIsNotRecordable is a late success that nobody can record, while another act
// holds the operation: its ref is kept.
func TestZombieIsNotRecordable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	zombie(f, external.Tool[in, out]{Finish: func(context.Context, pgx.Tx, in, out) error { return errors.New("the ledger is closed") }},
		func(int) (out, error) { return out{"z"}, nil }, func(*external.Handle[in, out]) {})
	op := f.lookup("k")
	require.Equal(t, external.Parked, op.State)
	require.Contains(t, op.Ref+op.Twice, "z")
}

// TestRefuseIsAudited is a wrong verdict on what can be looked up.
func TestRefuseIsAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	seen := false
	h := add(f, external.Tool[in, out]{
		Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
			p.act("", i.Order)
			return out{}, errLost
		},
		Find: func(_ context.Context, _ external.Attempt, i in) ([]out, error) {
			if !seen {
				return nil, nil
			}
			return p.find(i.Order), nil
		},
	})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("not seen")))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
	seen = true
	f.untilDue(f.lookup("k"))
	op := f.advance("k")
	require.Equal(t, "ch_1", op.Twice)
}

// TestTwiceIsCleared takes what happened twice off the list, when a person has taken one of them back.
func TestTwiceIsCleared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Find: lookUp, Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		p.act("", i.Order)
		p.act("", i.Order)
		return out{}, errLost
	}})
	result, err := h.Do(context.WithValue(f.ctx, providerKey{}, p), call("k"), in{1})
	require.NoError(t, err)
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
	var said string
	require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT concat_ws(' ', actor, action, outcome, reason) FROM tool_dedup_audit`).Scan(&said))
	require.Equal(t, "ada cleared done ch_2 is refunded", said)
}

// TestRefsAreListedOnce has effects that are known before the answer is. The answer's ref is no further
// effect, and each further one is listed once.
func TestRefsAreListedOnce(t *testing.T) {
	t.Parallel()
	happened, refused := external.Happened(out{"ch_2"}, "seen"), external.Refuse("not wanted")
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
		"KnownAsFurther":   {"ch_1", happened, "ch_2", "ch_1"},
		"Refused":          {"ch_1 ch_2", refused, "", "ch_1 ch_2"},
		"RefusedWithMore":  {"ch_2", refused, "", "ch_2 ch_1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			bad := true
			h := add(f, external.Tool[in, out]{Perform: answering("ch_1"), Finish: finishing(&bad)})
			_, err := h.Do(f.ctx, call("k"), in{1})
			require.ErrorAs(t, err, new(*external.ParkedError))
			bad = false
			f.exec(`UPDATE tool_effect SET twice = $1`, c.twice)
			require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), c.verdict.Overruling()))
			op := f.lookup("k")
			require.Equal(t, external.Done, op.State)
			require.Equal(t, c.ref, op.Ref)
			require.Equal(t, c.want, op.Twice)
		})
	}
}
