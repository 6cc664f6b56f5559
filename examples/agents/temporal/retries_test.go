package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

type in struct {
	Title string `json:"title"`
}

// registry has the tool add, which inserts a row, and the tool refuse.
func registry(t *testing.T) (*tool.Registry, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, title text)`)
	require.NoError(t, err)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools := tool.NewRegistry(d, nil)
	require.NoError(t, tools.Add(
		tool.Tool[in, int]{Name: "add", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, in in) (id int, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO tickets (title) VALUES ($1) RETURNING id`, in.Title).Scan(&id)
			return id, err
		}},
		tool.Tool[in, int]{Name: "refuse", Class: tool.Write, Run: func(context.Context, pgx.Tx, in) (int, error) {
			return 0, dedup.Final(errors.New("the account is closed"))
		}},
	))
	return tools, pool
}

// flaky loses the answer of a call's first attempt.
type flaky struct {
	*Activities
	attempts chan int32
}

var errLost = errors.New("the worker has lost its connection")

func (a *flaky) Invoke(ctx context.Context, call tool.Invocation) (Message, error) {
	answer, err := a.Activities.Invoke(ctx, call)
	a.attempts <- activity.GetInfo(ctx).Attempt
	if err == nil && activity.GetInfo(ctx).Attempt == 1 {
		return Message{}, errLost
	}
	return answer, err
}

// TestRetries: if an answer is lost, Temporal retries the call and gets the recorded answer. It does
// not retry an error that no retry changes.
func TestRetries(t *testing.T) {
	t.Parallel()
	tools, pool := registry(t)
	for _, test := range []struct {
		name, account, tool, told string
		attempts                  int
		fails                     string
	}{
		{name: "a lost answer", account: "acme", tool: "add", told: "1", attempts: 2},
		{name: "a refusal", account: "acme", tool: "refuse", told: "the account is closed", attempts: 2},
		{name: "a misuse", account: "", tool: "add", fails: "Scope is empty", attempts: 1},
	} {
		env := newEnvironment("17/5")
		attempts := make(chan int32, 10)
		env.RegisterActivity(&flaky{&Activities{Tools: tools, Model: func(_ context.Context, history []Message) (Message, error) {
			if len(history) > 1 {
				return Message{Text: history[len(history)-1].Text}, nil
			}
			return Message{Calls: []Call{{ID: "call_" + test.tool, Tool: test.tool, Args: []byte(`{"title":"a"}`)}}}, nil
		}}, attempts})
		text, err := execute(env, test.account)
		require.Len(t, attempts, test.attempts, test.name)
		if test.fails != "" {
			require.ErrorContains(t, err, test.fails)
			var failed *temporal.ApplicationError
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.NonRetryable())
			continue
		}
		require.NoError(t, err, test.name)
		require.Equal(t, test.told, text, test.name)
	}
	var rows int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM tickets`).Scan(&rows))
	require.Equal(t, 1, rows)
}

// TestInvokeIsAnActivity registers the registry's method itself.
func TestInvokeIsAnActivity(t *testing.T) {
	t.Parallel()
	tools, _ := registry(t)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Hour)
	env.RegisterActivity(tools.Invoke)
	for attempt := range 2 {
		result, err := env.ExecuteActivity(tools.Invoke, tool.Invocation{Scope: "acme", Session: "17/5", Turn: 1, CallID: "call_1", Tool: "add", Args: []byte(`{"title":"a"}`)})
		require.NoError(t, err)
		var answer tool.Answer
		require.NoError(t, result.Get(&answer))
		require.Equal(t, "1", string(answer.JSON))
		require.Equal(t, attempt > 0, answer.Replayed)
	}
}
