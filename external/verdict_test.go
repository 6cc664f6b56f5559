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

// TestVerdictStays is a second person's verdict on an operation whose first is not carried
// out: it is refused, and says who has decided and when.
func TestVerdictStays(t *testing.T) {
	t.Parallel()
	verdicts := map[string]external.Verdict{
		"happened": external.Happened(out{"ch_9"}, "in the books"),
		"never":    external.Never("not in the books"),
		"refuse":   external.Refuse("not in the books"),
	}
	for first, verdict := range verdicts {
		for second := range verdicts {
			t.Run(first+"/"+second, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				var keys []string
				parked(f, &keys)
				command := process(t, f.pool)
				seen := f.lookup("k")
				require.NoError(t, command.tools.Resolve(f.ctx, seen, verdict.By("ada")))
				stored := f.lookup("k")
				require.Equal(t, first, stored.Verdict)
				for _, as := range []external.Operation{seen, stored} { // as both have read it
					var decided *external.VerdictError
					require.ErrorAs(t, command.tools.Resolve(f.ctx, as, verdicts[second].By("bob")), &decided)
					require.Equal(t, first, decided.Operation.Verdict)
					require.ErrorContains(t, decided, first+" (ada: ")
					require.ErrorContains(t, decided, stored.ChangedAt.UTC().Format("2006-01-02T15:04:05Z"))
				}
				require.Equal(t, stored.Fence, f.lookup("k").Fence, "nothing is stored")
				require.Len(t, keys, 1)

				require.NoError(t, command.tools.Resolve(f.ctx, stored, verdicts[second].By("bob").Overruling()))
				require.Equal(t, second, f.lookup("k").Verdict)
				var said string
				require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT concat_ws(' ', actor, action, reason) FROM tool_dedup_audit ORDER BY id DESC LIMIT 1`).Scan(&said))
				require.Contains(t, said, "bob "+second+" ")
				require.Contains(t, said, "overrules "+first+": ada: ")

				op := f.advance("k")
				require.Equal(t, external.Done, op.State)
				require.Empty(t, op.Verdict)
				if second == "never" {
					require.Len(t, keys, 2)
				} else {
					require.Len(t, keys, 1)
				}
				require.ErrorIs(t, command.tools.Resolve(f.ctx, op, verdicts[first].Overruling()), dedup.ErrInvalid, "an answer stays")
			})
		}
	}
}

// TestOverruledWhileCarriedOut is a verdict that is overruled when a process has taken the
// operation to record it: it is not recorded any more.
func TestOverruledWhileCarriedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var keys []string
	parked(f, &keys)
	command := process(t, f.pool)
	require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Happened(out{"ch_wrong"}, "in other books")))
	overruled := false
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventRecording && !overruled {
			overruled = true
			require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("not in ours").Overruling()))
		}
	})
	op := f.advance("k")
	require.Equal(t, "refuse", op.Verdict)
	op = f.advance("k")
	require.Equal(t, external.Done, op.State)
	require.Equal(t, []string{"refused not in ours"}, f.ledger())
	require.Len(t, keys, 1)
}

// TestVerdictOfWhatGoesOn resolves an operation that is not parked, because every attempt and
// every look ends without an answer. While an attempt may send, it cannot be resolved.
func TestVerdictOfWhatGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("too early")), dedup.ErrInFlight)
			return out{}, errLost
		},
		Find: func(context.Context, external.Attempt, in) ([]out, error) { return nil, errors.New("403") },
	})
	_, err := h.Do(f.ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	op := f.lookup("k")
	require.Equal(t, external.Running, op.State)
	require.NoError(t, process(t, f.pool).tools.Resolve(f.ctx, op, external.Happened(out{"ch_1"}, "in the books")))
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestGivenUp is what comes to nothing again and again: it is parked at last, where a person
// finds it. Before that it is listed as open.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	fails := func(err error) func(context.Context, external.Attempt, in) (out, error) {
		return func(context.Context, external.Attempt, in) (out, error) { return out{}, err }
	}
	find := func(outs []out, err error) func(context.Context, external.Attempt, in) ([]out, error) {
		return func(context.Context, external.Attempt, in) ([]out, error) { return outs, err }
	}
	for name, tool := range map[string]external.Tool[in, out]{
		"FindFails":        {Perform: fails(errLost), Find: find(nil, errors.New("403"))},
		"FindFailsSettles": {Perform: fails(errLost), Settles: 1, Find: find(nil, errors.New("403"))},
		"NotDone":          {Perform: fails(external.NotDone(errors.New("401")))},
		"Replayed500":      {Perform: fails(errors.New("500")), KeyKept: external.Forever},
		"NotDoneAfterLost": {Perform: fails(external.NotDone(errors.New("401"))), KeyKept: external.Forever},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			h := add(f, tool)
			_, err := h.Do(f.ctx, impatient("k"), in{1})
			require.ErrorIs(t, err, dedup.ErrInFlight)
			open := f.open(0)
			require.Len(t, open, 1)
			require.Equal(t, "k", open[0].Key)
			require.Empty(t, f.open(lease*1000), "it is not that old")
			f.exec(`UPDATE tool_effect SET tries = 5000, due_at = now()`)
			op := f.advance("k")
			require.Equal(t, external.Parked, op.State)
			require.Contains(t, op.Note, "given up after 5001 tries: ")
			require.Empty(t, f.open(0), "it is parked")
		})
	}
}

func TestOpenLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	const n = 130
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		for i := range n {
			if _, err := h.Accept(f.ctx, tx, call(fmt.Sprint(i)), in{i}); err != nil {
				return err
			}
		}
		_, err := tx.Exec(f.ctx, `UPDATE tool_effect SET created_at = timestamptz '2026-01-01' + (key::int / 10) * interval '1 second'`)
		return err
	}))
	var last external.Operation
	seen := map[string]bool{}
	for _, op := range f.open(0) {
		require.Equal(t, external.Pending, op.State)
		require.False(t, op.CreatedAt.Before(last.CreatedAt), "the oldest first")
		seen[op.Key], last = true, op
	}
	require.Len(t, seen, n)
}

// TestWindowCountsFromTheFirstUse is a provider that counts its keys' time from their first
// use: neither an attempt that had no effect nor a person's verdict begins it anew.
func TestWindowCountsFromTheFirstUse(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{"NotDone": external.NotDone(errors.New("429")), "Never": errLost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			const kept = 100 * lease
			attempts := 0
			h := add(f, external.Tool[in, out]{KeyKept: kept, Timeout: lease, Perform: func(context.Context, external.Attempt, in) (out, error) {
				if attempts++; attempts == 1 {
					return out{}, first
				}
				return out{}, errLost // it has happened
			}})
			_, err := h.Do(f.ctx, impatient("k"), in{1})
			require.ErrorIs(t, err, dedup.ErrInFlight)
			f.exec(`UPDATE tool_effect SET sent_at = sent_at - $1::interval, sent_until = sent_until - $1::interval, due_at = now()`, kept)
			if name == "Never" {
				f.advance("k")
				require.Equal(t, external.Parked, f.lookup("k").State)
				require.NoError(t, process(t, f.pool).tools.Resolve(f.ctx, f.lookup("k"), external.Never("not in the books")))
			}
			op := f.advance("k")
			require.Equal(t, 2, attempts)
			require.Equal(t, external.Parked, op.State, "the provider may have forgotten the key")
			require.Greater(t, op.Now.Sub(op.SentAt), kept)
		})
	}
}

// TestRefusalAfterNeverIsAudited is an attempt that a person has asked for, and that is
// refused: the provider is looked at once more, since that person may have been wrong.
func TestRefusalAfterNeverIsAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	attempts := 0
	h := add(f, external.Tool[in, out]{Find: lookUp, Perform: func(context.Context, external.Attempt, in) (out, error) {
		if attempts++; attempts == 1 {
			return out{}, errLost
		}
		return out{}, dedup.Final(errors.New("declined"))
	}})
	ctx := context.WithValue(f.ctx, providerKey{}, p)
	_, err := h.Do(ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.NoError(t, f.tools.Resolve(ctx, f.lookup("k"), external.Never("not in the books")))
	_, err = h.Do(ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
	p.act("", 1) // the first attempt, late
	f.untilDue(f.lookup("k"))
	_, err = f.tools.Advance(ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.Equal(t, "ch_1", f.lookup("k").Twice)
}
