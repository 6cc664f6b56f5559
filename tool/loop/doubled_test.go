package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

// TestWhatDoubledYourWrite repeats the cause in each row of README.md's table. The effect happens
// once.
func TestWhatDoubledYourWrite(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	a := setup(t, nil)
	type tagged struct {
		What string `json:"what" dedup:"key"`
		Note string `json:"note,omitempty" dedup:"ignore"`
	}
	insert := func(ctx context.Context, tx pgx.Tx, what string) (id int, err error) {
		err = tx.QueryRow(ctx, `INSERT INTO rows (scope, what) VALUES ($1, $2) RETURNING id`, tool.InvocationOf(ctx).Scope, what).Scan(&id)
		return id, err
	}
	require.NoError(t, a.tools.Add(
		tool.Tool[tagged, int]{Name: "tagged", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, in tagged) (int, error) { return insert(ctx, tx, in.What) }},
		tool.Tool[addIn, int]{Name: "once", Class: tool.Write, OncePerRequest: true, Run: func(ctx context.Context, tx pgx.Tx, in addIn) (int, error) { return insert(ctx, tx, in.What) }},
	))
	args := json.RawMessage(`{"what":"a"}`)
	invoke := func(t *testing.T, inv tool.Invocation) {
		t.Helper()
		_, err := a.tools.Invoke(t.Context(), inv)
		require.NoError(t, err)
	}
	for cause, happen := range map[string]func(t *testing.T, scope string, time int){
		"a client or agent retried after a lost answer": func(t *testing.T, scope string, _ int) {
			invoke(t, tool.Invocation{Scope: scope, Key: "the client's", Tool: "add", Args: args})
		},
		"the queue delivered again": func(t *testing.T, scope string, _ int) {
			key, err := dedup.KeyFromIntent("delivery", "117")
			require.NoError(t, err)
			_, err = dedup.Do(t.Context(), a.tools.Deduper(), dedup.Call{Scope: scope, Tool: "webhook", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
				_, err := tx.Exec(ctx, `INSERT INTO rows (scope) VALUES ($1)`, scope)
				return 0, err
			})
			require.NoError(t, err)
		},
		"the run was resumed": func(t *testing.T, scope string, time int) {
			run := loop.New(a.tools, scope, "17/5")
			id, err := loop.Next(t.Context(), run, func(context.Context) (string, error) { return fmt.Sprint("call_", time), nil })
			require.NoError(t, err)
			require.NoError(t, run.Message(tool.Invocation{Tool: "add", CallID: id, Args: args}))
			_, err = run.Call(t.Context(), "add", id, args)
			require.NoError(t, err)
		},
		"two workers raced": func(t *testing.T, scope string, _ int) {
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if _, err := a.tools.Invoke(t.Context(), tool.Invocation{Scope: scope, Key: "the job's", Tool: "add", Args: args}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		},
		"the stream repeated a call": func(t *testing.T, scope string, _ int) {
			c := tool.Invocation{Scope: scope, Session: "17/5", Turn: 1, CallID: "call_x", Tool: "add", Args: args}
			for _, o := range a.tools.InvokeAll(t.Context(), []tool.Invocation{c, c}) {
				require.NoError(t, o.Err)
			}
		},
		"the model planned again, and an argument names the intent": func(t *testing.T, scope string, time int) {
			invoke(t, tool.Invocation{Scope: scope, Session: "17/5", Turn: time, CallID: fmt.Sprint("call_", time), Tool: "tagged", Args: json.RawMessage(fmt.Sprintf(`{"what":"a","note":"try %d"}`, time))})
		},
		"the model planned again, and a plan exists": func(t *testing.T, scope string, time int) {
			invoke(t, tool.Invocation{Scope: scope, Key: "step 3", Session: "17/5", Turn: time, CallID: fmt.Sprint("call_", time), Tool: "add", Args: args})
		},
		"the model planned again, and there is neither": func(t *testing.T, scope string, time int) {
			invoke(t, tool.Invocation{Scope: scope, Request: "17/5", Session: "17/5", Turn: time, CallID: fmt.Sprint("call_", time), Tool: "once", Args: args})
		},
	} {
		require.Contains(t, string(document), "\n| "+cause+" | ")
		for time := range 2 {
			happen(t, cause, time+1)
		}
		require.Equal(t, 1, a.rows(t, cause), cause)
	}
	// The control: the model planned again, and the call has no key of the intent.
	for time := range 2 {
		invoke(t, tool.Invocation{Scope: "control", Session: "17/5", Turn: time + 1, CallID: fmt.Sprint("call_", time), Tool: "add", Args: args})
	}
	require.Equal(t, 2, a.rows(t, "control"))
}
