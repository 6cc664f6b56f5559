package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/tooldedup/dedup/internal/agentkill"
)

func TestMain(m *testing.M) {
	agentkill.Main(m, agentkill.Agent{Name: "temporal", Run: func(ctx context.Context, s *agentkill.Start) (string, error) {
		env := newEnvironment(s.Session)
		env.RegisterActivity(&Activities{Tools: s.Tools, Model: served{s}.ask})
		return execute(env, s.Scope)
	}})
}

func TestKills(t *testing.T) {
	t.Parallel()
	agentkill.Test(t, "temporal", kept)
}

func TestLongKills(t *testing.T) {
	t.Parallel()
	agentkill.TestLong(t, "temporal", kept)
}

// newEnvironment returns the test environment for a workflow with an id. There is no server, so
// the workflow's history is lost with the process.
func newEnvironment(id string) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Hour)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Hour}) // a second by default
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: "agents"})
	return env
}

func execute(env *testsuite.TestWorkflowEnvironment, account string) (text string, err error) {
	env.RegisterWorkflow(Run)
	env.ExecuteWorkflow(Run, account, "Open six tickets.")
	if err := env.GetWorkflowError(); err != nil {
		return "", err
	}
	return text, env.GetWorkflowResult(&text)
}

// kept has the model's messages, as the workflow's history on a server has. The results of calls are
// lost with the process.
const kept = `CREATE TABLE kept (
	account text, workflow text, messages int, message json NOT NULL,
	PRIMARY KEY (account, workflow, messages))`

// served is a fake model that keeps its messages.
type served struct{ *agentkill.Start }

func (m served) ask(ctx context.Context, history []Message) (message Message, err error) {
	err = m.Pool.QueryRow(ctx, `SELECT message FROM kept WHERE account = $1 AND workflow = $2 AND messages = $3`,
		m.Scope, m.Session, len(history)).Scan(&message)
	if !errors.Is(err, pgx.ErrNoRows) {
		return message, err
	}
	var results []string
	for _, told := range history {
		if told.Role == "tool" {
			results = append(results, told.Text)
		}
	}
	calls, text := m.Answer(results)
	message = Message{Role: "model", Text: text}
	for _, c := range calls {
		message.Calls = append(message.Calls, Call{ID: c.ID, Tool: c.Name, Args: []byte(c.Args)})
	}
	_, err = m.Pool.Exec(ctx, `INSERT INTO kept VALUES ($1, $2, $3, $4)`, m.Scope, m.Session, len(history), message)
	return message, err
}
