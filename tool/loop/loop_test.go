package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

type addIn struct {
	What string `json:"what"`
	N    int    `json:"n,omitempty" dedup:"ignore"`
}

// agent is a registry on a new database, with a tool that adds a row.
type agent struct {
	pool  *pgxpool.Pool
	tools *tool.Registry
}

func setup(t *testing.T, opts *dedup.Options) *agent {
	t.Helper()
	a := &agent{pool: pgtest.New(t).Pool(t)}
	_, err := a.pool.Exec(t.Context(), `CREATE TABLE rows (id int GENERATED ALWAYS AS IDENTITY, scope text, what text, n int)`)
	require.NoError(t, err)
	d, err := dedup.New(a.pool, opts)
	require.NoError(t, err)
	a.tools = tool.NewRegistry(d, nil)
	require.NoError(t, a.tools.Add(tool.Tool[addIn, int]{
		Name: "add", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in addIn) (id int, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO rows (scope, what, n) VALUES ($1, $2, $3) RETURNING id`, tool.InvocationOf(ctx).Scope, in.What, in.N).Scan(&id)
			return id, err
		},
	}))
	return a
}

func (a *agent) rows(t *testing.T, scope string) (n int) {
	t.Helper()
	require.NoError(t, a.pool.QueryRow(t.Context(), `SELECT count(*) FROM rows WHERE scope = $1`, scope).Scan(&n))
	return n
}

// called is a call in a model's message.
type called struct{ ID, Args string }

// model returns two messages of three calls and an end. Its ids are new each time that it is asked.
type model struct{ asked int }

func (m *model) ask(context.Context) ([]called, error) {
	m.asked++
	var calls []called
	for i := range 3 {
		calls = append(calls, called{fmt.Sprintf("call_%d_%d", m.asked, i), fmt.Sprintf(`{"what":"%d"}`, i)})
	}
	return calls, nil
}

type nextFunc func(context.Context, *loop.Run, func(context.Context) ([]called, error)) ([]called, error)

var errDead = errors.New("the process has died")

// drive runs the loop until it ends or dies at a step. The steps are after each message of the
// model, and before and after each of its calls.
func (a *agent) drive(t *testing.T, scope string, m *model, dieAt int) (replies []string, err error) {
	t.Helper()
	return a.driveBy(t, loop.Next[[]called], scope, m, dieAt)
}

// driveBy is drive with a function that gets the model's next message.
func (a *agent) driveBy(t *testing.T, next nextFunc, scope string, m *model, dieAt int) (replies []string, err error) {
	t.Helper()
	step := 0
	dies := func() bool { step++; return step == dieAt }
	run := loop.New(a.tools, scope, "17/5")
	for range 2 {
		if dies() {
			return nil, errDead
		}
		calls, err := next(t.Context(), run, m.ask)
		require.NoError(t, err)
		if dies() {
			return nil, errDead
		}
		var all []tool.Invocation
		for _, c := range calls {
			all = append(all, tool.Invocation{Tool: "add", CallID: c.ID, Args: json.RawMessage(c.Args)})
		}
		require.NoError(t, run.Message(all...))
		for _, c := range calls {
			ctx := loop.With(t.Context(), run)
			text, _, err := tool.Reply(loop.From(ctx).Call(ctx, "add", c.ID, json.RawMessage(c.Args)))
			require.NoError(t, err)
			replies = append(replies, text)
			if dies() {
				return nil, errDead
			}
		}
	}
	return replies, nil
}

// TestRunsAreResumed kills a run at every step and starts it again. It ends the same. Without the
// recorded messages the ids are new, and effects double.
func TestRunsAreResumed(t *testing.T) {
	t.Parallel()
	a := setup(t, nil)
	whole, err := a.drive(t, "whole", &model{}, 0)
	require.NoError(t, err)
	require.Len(t, whole, 6)
	const steps = 2 * (2 + 3)
	for die := 1; die <= steps; die++ {
		scope, m := fmt.Sprint("dies at ", die), &model{}
		_, err := a.drive(t, scope, m, die)
		require.ErrorIs(t, err, errDead)
		_, err = a.drive(t, scope, m, die) // at the same step again
		require.ErrorIs(t, err, errDead)
		first, err := a.drive(t, scope, m, 0)
		require.NoError(t, err)
		again, err := a.drive(t, scope, m, 0)
		require.NoError(t, err)
		require.Equal(t, first, again, "the recorded answers")
		require.Equal(t, 6, a.rows(t, scope), scope)
		require.Equal(t, 2, m.asked, "the model is asked once for each message")
	}

	// The control: without recorded messages, the model plans the same calls under new ids.
	m := &model{}
	forgetful := func(ctx context.Context, run *loop.Run, _ func(context.Context) ([]called, error)) ([]called, error) {
		calls, err := m.ask(ctx)
		if err != nil {
			return nil, err
		}
		_, err = loop.Next(ctx, run, func(context.Context) (int, error) { return 0, nil }) // counts the turn
		return calls, err
	}
	_, err = a.driveBy(t, forgetful, "control", m, steps)
	require.ErrorIs(t, err, errDead)
	_, err = a.driveBy(t, forgetful, "control", m, 0)
	require.NoError(t, err)
	require.Equal(t, 12, a.rows(t, "control"))
}

// TestRunsAtOnce resumes a run in two processes at once.
func TestRunsAtOnce(t *testing.T) {
	t.Parallel()
	a := setup(t, nil)
	var all sync.WaitGroup
	replies := make([][]string, 4)
	for i := range replies {
		all.Go(func() { replies[i], _ = a.drive(t, "acme", &model{asked: 100 * i}, 0) })
	}
	all.Wait()
	for _, r := range replies {
		require.Equal(t, replies[0], r)
	}
	require.Equal(t, 6, a.rows(t, "acme"))
}

// TestHistories makes the calls of messages concurrently, out of order, not at all and again, with
// every kind of id. It compares the effects with a model: each call that was made has one.
func TestHistories(t *testing.T) {
	t.Parallel()
	a := setup(t, nil)
	const seed = 20261128
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 60 {
		scope := fmt.Sprint("history ", round)
		n := 1 + random.IntN(5)
		var message []tool.Invocation
		var slots []int // for each call, the first call that is the same
		for i := range n {
			c := tool.Invocation{
				Tool: "add", CallID: []string{"", "null", "x", "y", fmt.Sprint("id ", i)}[random.IntN(5)],
				Args: json.RawMessage(fmt.Sprintf(`{"what":"%d","n":%d}`, random.IntN(2), i)),
			}
			slot := i
			for j, other := range message {
				usable := dedup.UsableToolCallID(c.CallID, c.Tool)
				if usable && other.CallID == c.CallID && string(other.Args[:11]) == string(c.Args[:11]) {
					slot = slots[j]
					break
				}
			}
			message, slots = append(message, c), append(slots, slot)
		}
		made := map[int]string{}
		for range 1 + random.IntN(3) { // deliveries, each in a new process
			run := loop.New(a.tools, scope, "1/1")
			_, err := loop.Next(t.Context(), run, func(context.Context) (int, error) { return 1, nil })
			require.NoError(t, err)
			require.NoError(t, run.Message(message...))
			order := random.Perm(n)[:random.IntN(n+1)] // the user refuses the others
			answers := make([]tool.Answer, n)
			var all sync.WaitGroup
			for _, i := range order {
				all.Go(func() {
					answer, err := run.Call(t.Context(), "add", message[i].CallID, message[i].Args)
					if err == nil {
						answers[i] = answer
					} else {
						t.Errorf("seed %d, round %d: %v", seed, round, err)
					}
				})
			}
			all.Wait()
			for _, i := range order {
				if before, ok := made[slots[i]]; ok {
					require.Equal(t, before, string(answers[i].JSON), "seed %d, round %d", seed, round)
				}
				made[slots[i]] = string(answers[i].JSON)
			}
		}
		require.Equal(t, len(made), a.rows(t, scope), "seed %d, round %d: %+v", seed, round, message)
	}
}

// TestMessageErrors has messages that cannot be recorded or read again.
func TestMessageErrors(t *testing.T) {
	t.Parallel()
	a := setup(t, &dedup.Options{MaxResultBytes: 8 << 10, Retention: dedup.Retention{Result: time.Hour}})
	next := func(scope, text string) (string, error) {
		return loop.Next(t.Context(), loop.New(a.tools, scope, "17/5"), func(context.Context) (string, error) { return text, nil })
	}
	var failed *loop.MessageError
	_, err := next("long", strings.Repeat("x", 9<<10))
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, "message 1 of the model cannot be recorded; raise dedup's Options.MaxResultBytes")
	text, err := next("long", "short")
	require.NoError(t, err)
	require.Equal(t, "short", text, "nothing was recorded")

	_, err = a.pool.Exec(t.Context(), `UPDATE tool_dedup SET created_at = created_at - interval '2 hours', expires_at = expires_at - interval '2 hours'`)
	require.NoError(t, err)
	_, err = next("long", "other")
	require.ErrorIs(t, err, dedup.ErrExpired)
	require.ErrorContains(t, err, "raise Retention.Result")
	require.False(t, dedup.IsRetryable(err))

	keepsNone := setup(t, &dedup.Options{Retention: dedup.Retention{Result: -1}})
	asked := false
	_, err = loop.Next(t.Context(), loop.New(keepsNone.tools, "acme", "17/5"), func(context.Context) (string, error) {
		asked = true
		return "", nil
	})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, "a run needs its messages")
	require.False(t, asked)

	_, err = next("fits", "text")
	require.NoError(t, err)
	_, err = loop.Next(t.Context(), loop.New(a.tools, "fits", "17/5"), func(context.Context) (int, error) { return 1, nil })
	require.ErrorContains(t, err, "no longer fits")

	run := loop.New(a.tools, "acme", "1")
	broken := errors.New("the model is gone")
	_, err = loop.Next(t.Context(), run, func(context.Context) (int, error) { return 0, broken })
	require.Equal(t, broken, err)
	n, err := loop.Next(t.Context(), run, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, n, "the turn was not used up")
	var invalid *dedup.InvalidError
	for field, c := range map[string]tool.Invocation{
		"Scope": {Scope: "globex", Tool: "add"}, "Session": {Session: "2", Tool: "add"},
	} {
		require.ErrorAs(t, run.Message(c), &invalid)
		require.Equal(t, field, invalid.Field)
	}
	require.ErrorAs(t, loop.New(a.tools, "acme", "2").Message(), &invalid)
	require.Equal(t, "Turn", invalid.Field)
	_, err = run.Call(t.Context(), "add", "x", nil)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "CallID", invalid.Field)
	_, err = loop.Next(t.Context(), loop.New(a.tools, "acme", ""), func(context.Context) (int, error) { return 1, nil })
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "Session", invalid.Field)
	require.Nil(t, loop.From(t.Context()))
}
