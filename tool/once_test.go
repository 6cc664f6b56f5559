package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

// OncePerRequest makes equal calls of one request one call, with any ids and turns. The nth of one
// message is the nth of the next, and another request is another call. A part of a message counts
// as a message.
func TestOncePerRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "open", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.OncePerRequest = true })
	b.add(t, "close", tool.Write)
	of := func(request string, turn int, id, title string) tool.Invocation {
		return tool.Invocation{
			Scope: "acme", Session: "s", Request: request, Turn: turn, CallID: id, Tool: "open",
			Args: json.RawMessage(`{"title":"` + title + `","note":"` + id + `"}`),
		}
	}
	for _, c := range []struct {
		name    string
		calls   []tool.Invocation
		effects int
	}{
		{"first", []tool.Invocation{of("1", 1, "x", "a")}, 1},
		{"planned again under a new id", []tool.Invocation{of("1", 2, "y", "a")}, 0},
		{"without an id", []tool.Invocation{of("1", 3, "", "a")}, 0},
		{"other arguments", []tool.Invocation{of("1", 4, "z", "b")}, 1},
		{"the next request", []tool.Invocation{of("2", 1, "x", "a")}, 1},
		{"two bags", []tool.Invocation{of("3", 1, "x", "a"), of("3", 1, "y", "a")}, 2},
		{"two bags again", []tool.Invocation{of("3", 2, "v", "a"), of("3", 2, "w", "a")}, 0},
		{"two without ids", []tool.Invocation{of("4", 1, "", "a"), of("4", 1, "", "a")}, 2},
		{"emitted twice", []tool.Invocation{of("5", 1, "x", "a"), of("5", 1, "x", "a")}, 1},
		{"the first of two bags, alone", []tool.Invocation{of("6", 1, "x", "a")}, 1},
		{"the second alone counts as the first", []tool.Invocation{of("6", 1, "y", "a")}, 0},
		{"the whole message", []tool.Invocation{of("6", 1, "x", "a"), of("6", 1, "y", "a")}, 1},
		{"no request", []tool.Invocation{of("", 6, "x", "a")}, 1},
		{"no request, another id", []tool.Invocation{of("", 6, "y", "a")}, 1},
	} {
		before := b.count(t, "tickets")
		answers := b.all(t, c.calls)
		require.Equal(t, before+c.effects, b.count(t, "tickets"), c.name)
		for _, a := range answers {
			require.True(t, a.Replayed || c.effects > 0, c.name)
		}
	}
	keyed := of("1", 9, "x", "a")
	keyed.Key = "mine"
	require.False(t, b.invoke(t, keyed).Replayed, "a key goes before it")
	other := of("1", 10, "x", "a")
	other.Tool = "close"
	require.False(t, b.invoke(t, other).Replayed, "only the tool that asks for it")
}

// The calls of a message are made in any order, in parallel, twice, or not at all.
func TestMessage(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	for name, id := range ids {
		calls := message(name, 1, id)
		calls = append(calls, tool.Invocation{Tool: "unknown"})
		m := b.tools.Message(calls...)
		require.Equal(t, 0, count(t, b, name), "none is made")
		answers := make([]tool.Answer, 4)
		for _, i := range []int{2, 0, 3, 0, 2} { // a person refused 1
			answer, err := m.Invoke(t.Context(), i)
			require.NoError(t, err)
			if answers[i].Key != "" {
				requireReplay(t, answers[i], answer)
			}
			answers[i] = answer
		}
		_, err := m.Invoke(t.Context(), 4)
		require.Error(t, err)
		require.Equal(t, 3, count(t, b, name), name)
		for i, o := range b.tools.InvokeAll(t.Context(), calls[:4]) { // later, the whole message
			require.NoError(t, o.Err)
			require.Equal(t, i != 1, o.Answer.Replayed, name)
		}
		require.Equal(t, 4, count(t, b, name), name)
	}
}

// count returns the number of records of a scope.
func count(t *testing.T, b *bundle, scope string) (n int) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tool_dedup WHERE scope = $1`, scope).Scan(&n))
	return n
}
