package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// errClosed is an error of Finish or Refused: the row keeps the outcome.
var errClosed = errors.New("the ledger is closed")

// failsOnce fails the first time.
func failsOnce() func() error {
	failed := false
	return func() error {
		if !failed {
			failed = true
			return errClosed
		}
		return nil
	}
}

// TestKeptFurtherEffects: a look-up finds two effects, and the answer cannot be recorded at once.
// The second effect is reported nevertheless.
func TestKeptFurtherEffects(t *testing.T) {
	t.Parallel()
	f, closed := newFixture(t), failsOnce()
	s := &script{attempts: []answer{fails(errLost)}, looks: []answer{is("ch_1", "ch_2")}}
	h := add(f, s.tool(external.Tool[in, out]{Finish: func(context.Context, pgx.Tx, in, out) error { return closed() }}))
	_, err := h.Do(f.ctx, call("k"), in{1})
	op := f.parkedBy(err, "cannot be recorded")
	require.Equal(t, []string{"ch_1", "ch_2"}, []string{op.Ref, op.Twice})
	f.untilDue(op)
	op = f.advance("k")
	require.Equal(t, external.StateDone, op.State)
	require.Equal(t, []string{"ch_1", "ch_2"}, []string{op.Ref, op.Twice})
}

// TestKeptSuccessReplacesAVerdict: an attempt outlives its lease, an operator decides that the
// effect did not happen, and the attempt succeeds. Its success is kept in place of the verdict,
// which no process has carried out, and nothing is sent again.
func TestKeptSuccessReplacesAVerdict(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]external.Verdict{"Never": external.Never("not in the books"), "Refuse": external.Refuse("not in the books")} {
		for _, noRef := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/noRef=%t", name, noRef), func(t *testing.T) {
				t.Parallel()
				f, closed, book := newFixture(t), failsOnce(), newProvider()
				f.noRef = noRef
				entered, release := make(chan struct{}), make(chan struct{})
				tool := external.Tool[in, out]{
					Perform: func(ctx context.Context, a external.Attempt, i in) (out, error) {
						close(entered) // a second attempt panics
						<-release
						return book.perform(ctx, a, i)
					},
					Finish: func(context.Context, pgx.Tx, in, out) error { return closed() },
				}
				h := add(f, tool)
				ended := make(chan error, 1)
				go func() { _, err := h.Do(f.ctx, call("k"), in{1}); ended <- err }()
				<-entered
				f.elapse("k", 2*lease)
				other := process(t, f.pool)
				other.noRef = noRef
				add(other, tool)
				op := other.advance("k")
				require.Equal(t, external.StateParked, op.State)
				command := process(t, f.pool) // it does not have the tool
				require.NoError(t, command.tools.Resolve(f.ctx, op, v))
				close(release)
				require.Error(t, <-ended)
				require.NoError(t, f.tools.Close(f.ctx))

				op = f.lookup("k")
				require.Equal(t, "happened", op.Verdict)
				f.untilDue(op)
				op = other.advance("k")
				require.Equal(t, external.StateDone, op.State)
				require.Empty(t, op.Twice)
				require.Equal(t, 1, book.effects())
			})
		}
	}
}

// declined is a refusal with all parts that a record has.
type declined struct{ error }

func (declined) Code() string                 { return "card_declined" }
func (declined) MarshalJSON() ([]byte, error) { return []byte(`{"left": 3}`), nil }

// TestKeptRefusal: a refusal that cannot be recorded at once is recorded later as it was.
func TestKeptRefusal(t *testing.T) {
	t.Parallel()
	long := &pgconn.PgError{Severity: "ERROR", Code: "23514", Message: "secret " + strings.Repeat("x", 2000)}
	for name, why := range map[string]error{
		"Text":     errors.New("declined"),
		"Parts":    declined{errors.New("declined")},
		"Database": fmt.Errorf("check: %w", long),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refusals []dedup.RefusedError
			for _, closed := range []func() error{func() error { return nil }, failsOnce()} {
				f := newFixture(t)
				h := add(f, external.Tool[in, out]{
					KeyKept: external.Forever,
					Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, dedup.Final(why) },
					Refused: func(context.Context, pgx.Tx, in, error) error { return closed() },
				})
				_, err := h.Do(f.ctx, call("k"), in{1})
				if !errors.Is(err, dedup.ErrRefused) {
					f.untilDue(f.parkedBy(err, "cannot be recorded"))
					f.advance("k")
				}
				_, err = h.Do(f.ctx, call("k"), in{1})
				refused := new(dedup.RefusedError)
				require.ErrorAs(t, err, &refused)
				refusals = append(refusals, dedup.RefusedError{Message: refused.Message, Code: refused.Code, Details: refused.Details, OfDatabase: refused.OfDatabase})
			}
			require.Equal(t, refusals[0], refusals[1])
			require.Equal(t, name == "Database", refusals[1].OfDatabase)
			if name == "Parts" {
				require.Equal(t, dedup.RefusedError{Message: "declined", Code: "card_declined", Details: json.RawMessage(`{"left":3}`)}, refusals[1])
			}
		})
	}
}

// TestKeptRefusalOfAnOperator: an operator's reason is text, whatever it looks like.
func TestKeptRefusalOfAnOperator(t *testing.T) {
	t.Parallel()
	f, closed := newFixture(t), failsOnce()
	s := &script{attempts: []answer{fails(errLost)}, looks: []answer{{}}}
	h := add(f, s.tool(external.Tool[in, out]{Refused: func(context.Context, pgx.Tx, in, error) error { return closed() }}))
	_, err := h.Do(f.ctx, call("k"), in{1})
	op := f.parkedBy(err, "")
	const reason = `{"message": "unrecorded", "code": "x"}`
	require.Error(t, f.tools.Resolve(f.ctx, op, external.Refuse(reason)))
	f.untilDue(f.lookup("k"))
	f.advance("k")
	_, err = h.Do(f.ctx, call("k"), in{1})
	refused := new(dedup.RefusedError)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, reason, refused.Message)
	require.Empty(t, refused.Code)
}
