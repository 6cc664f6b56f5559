package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

// Each run of a call gets the arguments that were sent, whatever an earlier or concurrent run does
// to its own.
func TestEachRunGetsItsOwnArguments(t *testing.T) {
	t.Parallel()
	type in struct {
		Titles []string       `json:"titles"`
		ByName map[string]int `json:"by_name"`
		Limit  *int           `json:"limit"`
	}
	const args = `{"titles":["b","a"],"by_name":{"a":1},"limit":5}`
	for name, fault := range map[string]error{
		"RunAgainByDo":     &pgconn.PgError{Code: "40001"},
		"RunAgainByInvoke": errors.New("no room yet"),
	} {
		for _, class := range []tool.Class{tool.Write, tool.Idempotent, tool.ReadOnly} {
			t.Run(name+"/"+string(class), func(t *testing.T) {
				t.Parallel()
				b := setup(t, nil, nil)
				faults := []error{fault, nil}
				require.NoError(t, b.tools.Add(tool.Tool[in, in]{Name: "t", Class: class, Run: func(_ context.Context, _ pgx.Tx, in in) (sent in, err error) {
					sent = in
					sent.Titles, sent.ByName, sent.Limit = slices.Clone(in.Titles), map[string]int{"a": in.ByName["a"]}, new(*in.Limit)
					slices.Sort(in.Titles)
					in.ByName["a"]++
					*in.Limit = 0
					err, faults = faults[0], faults[1:]
					return sent, err
				}}))
				inv := call("t", "k", args)
				if class == tool.Idempotent {
					inv.Key, inv.Session = "", "" // without a record
				}
				m := b.tools.Message(inv)
				answer, err := m.Invoke(t.Context(), 0)
				if len(faults) == 1 {
					require.ErrorIs(t, err, fault)
					answer, err = m.Invoke(t.Context(), 0)
				}
				require.NoError(t, err)
				require.JSONEq(t, args, string(answer.JSON))
			})
		}
	}
}

// Two runs of one call at once do not share their arguments, which the race detector sees.
func TestRunsAtOnceHaveTheirOwnArguments(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Titles []string `json:"titles"`
	}
	var both sync.WaitGroup
	both.Add(2)
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{Name: "t", Class: tool.ReadOnly, Run: func(_ context.Context, _ pgx.Tx, in in) (string, error) {
		both.Done()
		both.Wait() // for the other run
		in.Titles[0] += "!"
		return in.Titles[0], nil
	}}))
	m := b.tools.Message(tool.Invocation{Tool: "t", Args: json.RawMessage(`{"titles":["a"]}`)})
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			answer, err := m.Invoke(t.Context(), 0)
			answers <- string(answer.JSON)
			if err != nil {
				t.Error(err)
			}
		}()
	}
	require.Equal(t, []string{`"a!"`, `"a!"`}, []string{<-answers, <-answers})
}
