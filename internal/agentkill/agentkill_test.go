package agentkill

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
)

type message struct {
	Calls []Call
	Text  string
}

// answer is a loop without a framework. ask returns the model's next message.
func answer(ctx context.Context, s *Start, run *loop.Run, ask func(results []string) (message, error)) (string, error) {
	var results []string
	for {
		m, err := ask(results)
		if err != nil || len(m.Calls) == 0 {
			return m.Text, err
		}
		var calls []tool.Invocation
		for _, c := range m.Calls {
			calls = append(calls, tool.Invocation{Tool: c.Name, CallID: c.ID, Args: json.RawMessage(c.Args)})
		}
		if err := run.Message(calls...); err != nil {
			return "", err
		}
		for _, c := range calls {
			text, _, err := tool.Reply(run.Call(ctx, c.Tool, c.CallID, c.Args))
			if err != nil {
				return "", err
			}
			results = append(results, text)
		}
	}
}

func TestMain(m *testing.M) {
	Main(m,
		Agent{"plain", func(ctx context.Context, s *Start) (string, error) {
			run := loop.New(s.Tools, s.Scope, s.Session)
			return answer(ctx, s, run, func(results []string) (message, error) {
				return loop.Next(ctx, run, func(context.Context) (m message, err error) {
					m.Calls, m.Text = s.Answer(results)
					return m, nil
				})
			})
		}},
		// It counts the model's messages, and asks for them anew after each start.
		Agent{"forgetful", func(ctx context.Context, s *Start) (string, error) {
			run := loop.New(s.Tools, s.Scope, s.Session)
			return answer(ctx, s, run, func(results []string) (m message, err error) {
				m.Calls, m.Text = s.Answer(results)
				_, err = loop.Next(ctx, run, func(context.Context) (int, error) { return 0, nil })
				return m, err
			})
		}})
}

func TestPlain(t *testing.T) {
	t.Parallel()
	Test(t, "plain")
}

// TestForgetful: an agent that doubles its effects is found out.
func TestForgetful(t *testing.T) {
	t.Parallel()
	c := newCampaign(t, "forgetful", nil)
	const beforeSecondCall = 6
	dies := func(start, n int, _ string) bool { return start == 0 && n == beforeSecondCall }
	err := c.survive(t, "forgetful", dies, func(int) {})
	require.ErrorContains(t, err, "forgetful: 7 effects for 6 calls")
	require.NoError(t, c.survive(t, "whole", func(int, int, string) bool { return false }, func(int) {}))
}
