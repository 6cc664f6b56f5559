package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// impatient is a call that waits for nobody else.
func impatient(key string) dedup.Call {
	c := call(key)
	c.MaxWait = -1
	return c
}

// TestImpatientCallActsOnce is an operation that is due again as soon as its attempt has ended. The call
// that made the attempt begins nothing more.
func TestImpatientCallActsOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"Unknown": errLost, "NotDone": external.NotDone(errors.New("429"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			attempts := 0
			h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: func(context.Context, external.Attempt, in) (out, error) {
				attempts++
				return out{}, answer
			}})
			f.exec(`CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.due_at := NEW.changed_at; RETURN NEW; END $$;
				CREATE TRIGGER hurry BEFORE UPDATE ON tool_effect FOR EACH ROW WHEN (NEW.note = 'the answer is lost' OR NEW.note = '429') EXECUTE FUNCTION hurry()`)
			for n := range 3 {
				_, err := h.Do(f.ctx, impatient("k"), in{1})
				require.ErrorIs(t, err, dedup.ErrInFlight)
				require.Equal(t, n+1, attempts)
			}
			require.NoError(t, f.tools.Close(f.ctx))
			require.Equal(t, 3, attempts)
		})
	}
}

// TestImpatientCallWaitsForItself is an operation that is due. The call that takes it up has its answer.
func TestImpatientCallWaitsForItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	accept(f, h, "k", 1)
	result, err := h.Do(f.ctx, impatient("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}
