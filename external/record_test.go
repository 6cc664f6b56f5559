package external_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestFinishFails is an effect whose local writes fail for good: it is parked with its
// ref, and recorded when they succeed.
func TestFinishFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	tool := ledger(f, external.Tool[in, out]{Perform: p.perform})
	finish := tool.Finish
	bad := true
	tool.Finish = func(ctx context.Context, tx pgx.Tx, i in, o out) error {
		if err := finish(ctx, tx, i, o); err != nil || !bad {
			return err
		}
		return dedup.Final(errors.New("the ledger is closed"))
	}
	h := add(f, tool)
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Equal(t, "ch_1", parked.Operation.Ref)
	require.Contains(t, parked.Operation.Note, "the ledger is closed")
	require.Empty(t, f.ledger())
	bad = false
	f.until("k", external.Done)
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.Equal(t, 1, p.effects())
	require.Equal(t, []string{"finish ch_1"}, f.ledger())
}

// TestResultCannotBeRecorded is an effect whose result no record holds.
func TestResultCannotBeRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	type odd struct {
		ID string
		F  func() `json:"f"`
	}
	h, err := external.Add(f.tools, external.Tool[in, odd]{
		Name: "charge", Ref: func(o odd) string { return o.ID },
		Perform: func(context.Context, external.Attempt, in) (odd, error) { return odd{ID: "ch_1"}, nil },
	})
	require.NoError(t, err)
	var parked *external.ParkedError
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Equal(t, "ch_1", parked.Operation.Ref)

	large := add(f, external.Tool[in, out]{Name: "large", Perform: func(context.Context, external.Attempt, in) (out, error) {
		return out{strings.Repeat("x", 2<<20)}, nil
	}})
	_, err = large.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "result")
}

// TestResultWithoutRef is an answer that the client did not understand, such as one of a body without
// an id: it is no success. With a key it is sent again, and a look that returns it is one that failed.
func TestResultWithoutRef(t *testing.T) {
	t.Parallel()
	for name, tool := range map[string]external.Tool[in, out]{"Neither": {}, "Key": {KeyKept: external.Forever}, "Find": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			asked, looks := 0, 0
			tool.Perform = func(context.Context, external.Attempt, in) (out, error) {
				if asked++; asked > 1 {
					return out{"ch_1"}, nil
				}
				return out{}, nil
			}
			if name == "Find" {
				tool.Find = func(context.Context, external.Attempt, in) ([]out, error) {
					if looks++; looks > 1 {
						return []out{{"ch_1"}}, nil
					}
					return []out{{}}, nil
				}
			}
			result, err := add(f, tool).Do(f.ctx, call("k"), in{1})
			if name == "Neither" {
				var parked *external.ParkedError
				require.ErrorAs(t, err, &parked)
				require.Contains(t, parked.Operation.Note, "lacks the provider's id")
				return
			}
			require.NoError(t, err)
			require.Equal(t, out{"ch_1"}, result.Value)
			require.Equal(t, 2, max(asked, looks))
		})
	}
}

// TestFinishPanics is parked as a Finish that fails is: a panic must not end the process.
func TestFinishPanics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{
		Perform: answering("ch_1"),
		Finish:  func(context.Context, pgx.Tx, in, out) error { panic("a bug") },
	})
	var parked *external.ParkedError
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, &parked)
	require.Equal(t, "ch_1", parked.Operation.Ref)
}

// TestRecordDeleted is a done operation whose record somebody has deleted: it is not run
// anew.
func TestRecordDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	f.exec(`DELETE FROM tool_dedup`)
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.Equal(t, 1, p.effects())
}

// TestResetIsRefused is a record that is not freed: what happened at the provider stays. Where there is no
// table of operations, records are freed as before.
func TestResetIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	freed, err := f.d.Reset(f.ctx, "acme", "charge", "k", dedup.ResetOptions{Reason: "a test"})
	var invalid *dedup.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "Tool", invalid.Field)
	require.False(t, freed)
	again, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, 1, p.effects())

	_, err = dedup.Do(f.ctx, f.d, dedup.Call{Scope: "acme", Tool: "note", Key: "k"}, func(context.Context, pgx.Tx) (string, error) { return "", nil })
	require.NoError(t, err)
	f.exec(`DROP TABLE tool_effect`)
	freed, err = f.d.Reset(f.ctx, "acme", "note", "k", dedup.ResetOptions{Reason: "a test"})
	require.NoError(t, err)
	require.True(t, freed)
}

// TestForgotten is an identity whose record may be forgotten: it is used anew, and a fence
// of its first life changes nothing.
func TestForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	fence := f.lookup("k").Fence
	for _, table := range []string{"tool_dedup", "tool_effect"} {
		_, err = f.pool.Exec(f.ctx, `UPDATE `+table+` SET forget_at = now() - interval '1 s' + CASE WHEN $1 THEN interval '1 day' ELSE interval '0' END`, table == "tool_effect")
		require.NoError(t, err)
	}
	again, err := h.Do(f.ctx, call("k"), in{2})
	require.NoError(t, err)
	require.False(t, again.Replayed)
	require.Equal(t, 2, p.effects())
	require.Greater(t, f.lookup("k").Fence, fence)

	f.exec(`DELETE FROM tool_dedup; UPDATE tool_effect SET forget_at = now() + interval '23 hours'`)
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		op, err := h.Accept(f.ctx, tx, call("k"), in{3})
		require.Equal(t, external.Pending, op.State)
		return err
	}))
}
