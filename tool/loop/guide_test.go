package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// TestSentencesOfTheGuide tests each rule of the guide's chapter on agents' loops. With the rule
// there are as many effects as intents, and without it there are more or fewer.
func TestSentencesOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide.md")
	require.NoError(t, err)
	a := setup(t, nil)
	type tagged struct {
		What string `json:"what" dedup:"key"`
		Note string `json:"note,omitempty" dedup:"ignore"`
	}
	add := func(ctx context.Context, tx pgx.Tx, what string) (id int, err error) {
		err = tx.QueryRow(ctx, `INSERT INTO rows (scope, what) VALUES ($1, $2) RETURNING id`, tool.InvocationOf(ctx).Scope, what).Scan(&id)
		return id, err
	}
	require.NoError(t, a.tools.Add(tool.Tool[tagged, int]{
		Name: "tagged", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in tagged) (int, error) { return add(ctx, tx, in.What) },
	}))

	// turn is one message of the model with one call. Its id is new each time that the model is
	// asked.
	asked := 0
	turn := func(t *testing.T, run *loop.Run, scope, what string) {
		t.Helper()
		id, err := loop.Next(t.Context(), run, func(context.Context) (string, error) {
			asked++
			return fmt.Sprint("call_", asked), nil
		})
		require.NoError(t, err, scope)
		args := json.RawMessage(fmt.Sprintf(`{"what":%q}`, what))
		require.NoError(t, run.Message(tool.Invocation{Tool: "add", CallID: id, Args: args}))
		_, err = run.Call(t.Context(), "add", id, args)
		require.NoError(t, err, scope)
	}
	invoke := func(t *testing.T, inv tool.Invocation) error {
		t.Helper()
		_, err := a.tools.Invoke(t.Context(), inv)
		return err
	}

	for _, c := range []struct {
		sentence         string
		intents, effects int // effects without the rule
		with, without    func(t *testing.T, scope string, time int)
	}{
		{
			"Tag the argument that names the intent.", 1, 2,
			func(t *testing.T, scope string, time int) {
				args := fmt.Sprintf(`{"what":"a","note":"try %d"}`, time)
				require.NoError(t, invoke(t, tool.Invocation{Scope: scope, Session: "17/5", Turn: time, CallID: "new", Tool: "tagged", Args: json.RawMessage(args)}))
			},
			func(t *testing.T, scope string, time int) {
				require.NoError(t, invoke(t, tool.Invocation{Scope: scope, Session: "17/5", Turn: time, CallID: "new", Tool: "add", Args: json.RawMessage(`{"what":"a"}`)}))
			},
		},
		{
			"The session is the conversation and the user's message, and the turn counts from 1 within it.", 2, 1,
			func(t *testing.T, scope string, time int) {
				turn(t, loop.New(a.tools, scope, fmt.Sprint("17/", time)), scope, "the same again")
			},
			func(t *testing.T, scope string, _ int) {
				turn(t, loop.New(a.tools, scope, "17"), scope, "the same again")
			},
		},
		{
			"At resume, make the open call again before you ask the model.", 1, 2,
			func(t *testing.T, scope string, _ int) { turn(t, loop.New(a.tools, scope, "17/5"), scope, "a") },
			func(t *testing.T, scope string, time int) {
				run := loop.New(a.tools, scope, "17/5")
				if time == 2 { // the answer is replaced by an error, and the model plans the call again
					_, err := loop.Next(t.Context(), run, func(context.Context) (string, error) { return "", nil })
					require.NoError(t, err)
				}
				turn(t, run, scope, "a")
			},
		},
		{
			"Give a sub-agent its own session", 1, 2,
			func(t *testing.T, scope string, _ int) {
				turn(t, loop.New(a.tools, scope, "17/5/2/call_0"), scope, "a")
			},
			func(t *testing.T, scope string, time int) {
				turn(t, loop.New(a.tools, scope, fmt.Sprint("sub-agent ", time)), scope, "a")
			},
		},
		{
			"The webhook or message that starts a run is a call too.", 1, 2,
			func(t *testing.T, scope string, time int) {
				session, err := dedup.Do(t.Context(), a.tools.Deduper(), dedup.Call{Scope: scope, Tool: "webhook", Key: "delivery 117"},
					func(context.Context, pgx.Tx) (string, error) { return fmt.Sprint("conversation ", time, "/1"), nil })
				require.NoError(t, err)
				turn(t, loop.New(a.tools, scope, session.Value), scope, "a")
			},
			func(t *testing.T, scope string, time int) {
				turn(t, loop.New(a.tools, scope, fmt.Sprint("conversation ", time, "/1")), scope, "a")
			},
		},
		{
			"A weak key comes again in another conversation.", 2, 1,
			func(t *testing.T, scope string, time int) {
				args := fmt.Sprintf(`{"what":"order %d"}`, time)
				require.NoError(t, invoke(t, tool.Invocation{Scope: scope, Key: "refund-1", Tool: "tagged", Args: json.RawMessage(args)}))
			},
			func(t *testing.T, scope string, time int) {
				err := invoke(t, tool.Invocation{Scope: scope, Key: "refund-1", Tool: "add", Args: json.RawMessage(fmt.Sprintf(`{"what":"order %d"}`, time))})
				if time == 2 {
					require.ErrorIs(t, err, dedup.ErrKeyReused)
					return
				}
				require.NoError(t, err)
			},
		},
	} {
		require.Contains(t, string(guide), "\n- **"+c.sentence)
		for time := range 2 {
			c.with(t, "with: "+c.sentence, time+1)
			c.without(t, "without: "+c.sentence, time+1)
		}
		require.Equal(t, c.intents, a.rows(t, "with: "+c.sentence), c.sentence)
		require.Equal(t, c.effects, a.rows(t, "without: "+c.sentence), c.sentence)
	}
}
