package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	h := add(f, external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, _ in) (out, error) {
		close(entered)
		<-release
		return out{"ch_1"}, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(f.ctx)
	go func() {
		<-entered
		cancel()
	}()
	_, err := h.Do(ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.ErrorIs(t, err, context.Canceled)

	_, err = h.Do(f.ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	hurried := call("k")
	hurried.MaxWait = time.Millisecond
	_, err = h.Do(f.ctx, hurried, in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)

	close(release)
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
}

// TestLeaseIsExtended runs an attempt for longer than its first lease. The lease is extended, and
// no other process takes over.
func TestLeaseIsExtended(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := process(t, f.pool)
	p := newProvider()
	tool := external.Tool[in, out]{Perform: func(ctx context.Context, _ external.Attempt, i in) (out, error) {
		first := f.lookup("k")
		now := first
		for now.Due.Equal(first.Due) { // until the lease is extended; if it is not, ctx ends the loop
			_, err := f.pool.Exec(ctx, `SELECT pg_sleep(0.1)`)
			require.NoError(t, err)
			now = f.lookup("k")
		}
		require.Equal(t, first.Fence, now.Fence)
		other.elapse("k", first.Due.Sub(now.Now))
		op, err := other.tools.Advance(ctx, "acme", "charge", "k")
		require.NoError(t, err)
		require.Equal(t, first.Fence, op.Fence)
		return p.act("", i.Order), nil
	}}
	h := add(f, tool)
	add(other, tool)
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, 1, p.effects())
}

// TestProviderKey pins the provider's key: a release that changes it charges twice.
func TestProviderKey(t *testing.T) {
	t.Parallel()
	for want, id := range map[string][3]string{
		"ed2aca58-69c1-8b95-8751-58e1380967d3": {"acme", "charge", "k"},
	} {
		got := external.ProviderKey(id[0], id[1], id[2])
		require.Equal(t, want, got)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, got)
	}
}

func TestRoundTripsOfResults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h, err := external.Add(f.tools, external.Tool[json.RawMessage, json.RawMessage]{
		Name:    "charge",
		Perform: func(_ context.Context, _ external.Attempt, i json.RawMessage) (json.RawMessage, error) { return i, nil },
	})
	require.NoError(t, err)
	for i, text := range []string{`null`, `"a\u0000b"`, `12345678901234567890.5`, `{"b":1,"a":[]}`} {
		first, err := h.Do(f.ctx, call(fmt.Sprint(i)), json.RawMessage(text))
		require.NoError(t, err)
		again, err := h.Do(f.ctx, call(fmt.Sprint(i)), json.RawMessage(text))
		require.NoError(t, err)
		require.Equal(t, text, string(first.Value))
		require.Equal(t, text, string(again.Value))
	}
}

// TestCloseAfterTheLastAnswer closes with an ended context, as at the end of a process. Answered
// operations are not waited for.
func TestCloseAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 20 {
		f := process(t, pool)
		h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
		_, err := h.Do(f.ctx, call(fmt.Sprint(n)), in{n})
		require.NoError(t, err)
		require.NoError(t, f.tools.Close(ended))
	}
}

// TestGoexit has each function of a tool end its goroutine by runtime.Goexit, as t.FailNow does,
// and the Tracer panic at each step. No outcome is lost.
func TestGoexit(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	exit := func() error { runtime.Goexit(); return nil }
	for name, c := range map[string]struct {
		tool external.Tool[in, out]
		note string
		held string // the verdict
	}{
		"Perform": {external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, exit() }}, "runtime.Goexit", ""},
		"Finish": {external.Tool[in, out]{
			Perform: answering("ch_1"), Finish: func(context.Context, pgx.Tx, in, out) error { return exit() },
		}, "runtime.Goexit", "happened"},
		"Refused": {external.Tool[in, out]{
			Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, errDeclined },
			Refused: func(context.Context, pgx.Tx, in, error) error { return exit() },
		}, "runtime.Goexit", "refuse"},
		"Find": {external.Tool[in, out]{Perform: losing, Find: func(context.Context, external.Attempt, in) ([]out, error) { return nil, exit() }}, "", ""},
	} {
		f := process(t, shared.pool)
		h := add(f, c.tool)
		_, err := h.Do(f.ctx, impatient(name), in{1})
		require.Error(t, err, name)
		if name == "Find" {
			f.untilDue(f.lookup(name))
			require.Contains(t, f.advance(name).Note, "runtime.Goexit")
			continue
		}
		_, err = h.Do(f.ctx, call(name), in{1})
		require.Equal(t, c.held, f.parkedBy(err, c.note).Verdict, name)
	}
	f := process(t, shared.pool)
	f.steps.stopAt(func(external.Event) { panic("a bug") })
	result, err := add(f, external.Tool[in, out]{Perform: answering("ch_1")}).Do(f.ctx, call("Tracer"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
	require.NotZero(t, f.steps.count(external.EventRecorded))
}

// TestResetIsRefused resets the record of an operation, which is refused: the effect at the
// provider stays. Without a table of operations, Reset works.
func TestResetIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	freed, err := f.d.Reset(f.ctx, "acme", "charge", "k", dedup.ChangeOptions{Reason: "a test"})
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
	freed, err = f.d.Reset(f.ctx, "acme", "note", "k", dedup.ChangeOptions{Reason: "a test"})
	require.NoError(t, err)
	require.True(t, freed)
}

// impatient is a call with a negative MaxWait.
func impatient(key string) dedup.Call {
	c := call(key)
	c.MaxWait = -1
	return c
}

// TestImpatientCallActsOnce has an operation that is due again as soon as its attempt has ended.
// The call that made the attempt makes no other.
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

// TestImpatientCallWaitsForItself has an operation that is due. The call that continues it returns
// its answer.
func TestImpatientCallWaitsForItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	accept(f, h, "k", 1)
	result, err := h.Do(f.ctx, impatient("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestFreedByAnother has two processes delete the same forgotten operation; the second continues as
// the first does. If the record was deleted by hand, the call does not run again.
func TestFreedByAnother(t *testing.T) {
	t.Parallel()
	f, s := newFixture(t), &script{attempts: []answer{is("ch_1")}}
	h := add(f, s.tool(external.Tool[in, out]{}))
	do := func(key string) error {
		_, err := h.Do(f.ctx, call(key), in{1})
		return err
	}
	ways := map[string]func(key string) error{"do": do, "accept": func(key string) error {
		return pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call(key), in{1})
			return err
		})
	}}
	for key, again := range ways {
		require.NoError(t, do(key))
		f.exec(`DELETE FROM tool_dedup WHERE key = $1`, key)
		require.ErrorAs(t, again(key), new(*external.ParkedError))
		fence := f.lookup(key).Fence
		f.exec(`UPDATE tool_effect SET forget_at = now() WHERE key = $1`, key)
		other := f.begin()
		_, err := other.Exec(f.ctx, `DELETE FROM tool_effect WHERE key = $1`, key)
		require.NoError(t, err)
		answer := make(chan error, 1)
		go func() { answer <- again(key) }()
		f.untilWaiting()
		require.NoError(t, other.Commit(f.ctx))
		require.NoError(t, <-answer)
		require.Greater(t, f.lookup(key).Fence, fence)
	}
	sent, _ := s.count()
	require.Equal(t, 3, sent, "the one that is accepted waits")
}
