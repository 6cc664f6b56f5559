package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

// ids are the ways in which providers are known to identify the calls of a message.
var ids = map[string]func(i int, name string) string{
	"Unique":          func(i int, _ string) string { return fmt.Sprintf("call_x%dy", i) },
	"Position":        func(i int, _ string) string { return fmt.Sprintf("call_%d", i) },
	"Tool's position": func(i int, name string) string { return fmt.Sprintf("%s_%d", name, i) },
	"Empty":           func(int, string) string { return "" },
	"null":            func(int, string) string { return "null" },
	"None":            func(int, string) string { return "None" },
	"Tool's name":     func(_ int, name string) string { return name },
	"One for all":     func(int, string) string { return "call_same" },
	"One for two":     func(i int, _ string) string { return fmt.Sprintf("call_%d", i/2) },
	"Some":            func(i int, _ string) string { return []string{"", "call_a"}[i%2] },
}

// message returns the calls of one message of a model: four parallel calls of two tools.
func message(scope string, turn int, id func(int, string) string) (calls []tool.Invocation) {
	for i, c := range []struct{ tool, title string }{{"open", "a"}, {"open", "b"}, {"close", "a"}, {"open", "c"}} {
		calls = append(calls, tool.Invocation{
			Scope: scope, Session: "s", Turn: turn, CallID: id(i, c.tool),
			Tool: c.tool, Args: json.RawMessage(`{"title":"` + c.title + `"}`),
		})
	}
	return calls
}

func openAndClose(t *testing.T) *bundle {
	t.Helper()
	b := setup(t, nil, nil)
	b.add(t, "open", tool.Write)
	b.add(t, "close", tool.Destructive)
	return b
}

// all makes the calls of a message and requires that each succeeds.
func (b *bundle) all(t *testing.T, calls []tool.Invocation) (answers []tool.Answer) {
	t.Helper()
	outcomes := b.tools.InvokeAll(t.Context(), calls)
	require.Len(t, outcomes, len(calls))
	for i, o := range outcomes {
		require.NoErrorf(t, o.Err, "call %d", i)
		answers = append(answers, o.Answer)
	}
	return answers
}

// again repeats calls that were made, and requires the same answers.
func (b *bundle) again(t *testing.T, calls []tool.Invocation, answers []tool.Answer) {
	t.Helper()
	for i, a := range b.all(t, calls) {
		requireReplay(t, answers[i], a)
	}
}

func requireReplay(t *testing.T, first, a tool.Answer) {
	t.Helper()
	require.True(t, a.Replayed)
	require.Equal(t, string(first.JSON), string(a.JSON))
	require.Equal(t, first.Key, a.Key)
}

// Each call of a message takes effect once, however the provider identifies it. Any part of the
// message that is delivered again is answered from the records.
func TestEveryIDMakesAKey(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	effects := 0
	for name, id := range ids {
		for turn := range 3 {
			calls := message(name, turn, id)
			answers := b.all(t, calls)
			for _, a := range answers {
				require.False(t, a.Replayed, name)
			}
			effects += len(calls)
			require.Equal(t, effects, b.count(t, "tickets"), name)

			b.again(t, calls, answers)
			b.again(t, calls[:2], answers[:2])
			b.again(t, calls[2:], answers[2:])
			for i := range calls {
				b.again(t, calls[i:i+1], answers[i:i+1])
				if turn > 0 {
					requireReplay(t, answers[i], b.invoke(t, calls[i]))
				}
			}
			slices.Reverse(calls)
			slices.Reverse(answers)
			b.again(t, calls, answers)
			require.Equal(t, effects, b.count(t, "tickets"), name)
		}
	}
}

// The same message is delivered several times in parallel.
func TestDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	effects := 0
	for name, id := range ids {
		calls := message(name, 1, id)
		reversed := slices.Clone(calls)
		slices.Reverse(reversed)
		var all sync.WaitGroup
		outcomes := make([][]tool.InvokeResult, 6)
		for i := range outcomes {
			all.Go(func() { outcomes[i] = b.tools.InvokeAll(t.Context(), [][]tool.Invocation{calls, reversed}[i%2]) })
		}
		all.Wait()
		ran := 0
		for _, list := range outcomes {
			for _, o := range list {
				require.NoError(t, o.Err, name)
				if !o.Answer.Replayed || o.Answer.Recovered {
					ran++
				}
			}
		}
		require.Equal(t, len(calls), ran, name)
		effects += len(calls)
		require.Equal(t, effects, b.count(t, "tickets"), name)
	}
}

// Two calls share an id and one of them fails. When it comes again it runs, even if the other has
// the id's key by then.
func TestSharedIDOfACallThatFailed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	fault := errors.New("no such room")
	fails := true
	b.add(t, "open", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.Run = func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) {
			out, err := b.createTicket(ctx, tx, in)
			if err == nil && fails && in.Title == "a" {
				err = fault
			}
			return out, err
		}
	})
	b.add(t, "close", tool.Write)
	calls := message("acme", 1, ids["One for all"])
	first := b.tools.InvokeAll(t.Context(), calls)
	require.ErrorIs(t, first[0].Err, fault)
	for _, o := range first[1:] {
		require.NoError(t, o.Err, "one failure keeps no other call from being made")
	}
	fails = false
	second := b.all(t, calls)
	require.False(t, second[0].Replayed)
	for i := 1; i < len(calls); i++ {
		requireReplay(t, first[i].Answer, second[i])
	}
	require.Equal(t, len(calls), b.count(t, "tickets"))
	for i := range calls {
		b.again(t, calls[i:i+1], second[i:i+1])
	}
}

// Equal calls of one message are counted if their ids name no call, so that each is made once.
// Equal calls with one usable id are one call, which a stream emitted twice.
func TestEqualCallsOfAMessage(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	effects := 0
	for name, id := range ids {
		one := message(name, 1, id)[0]
		calls, byID := []tool.Invocation{one, one, one}, map[string]int{}
		for i := range calls {
			calls[i].CallID = id(i, "open")
			if dedup.UsableToolCallID(calls[i].CallID, "open") {
				byID[calls[i].CallID] = i
			} else {
				byID[fmt.Sprint("without, ", i)] = i
			}
		}
		answers := b.all(t, calls)
		effects += len(byID)
		require.Equal(t, effects, b.count(t, "tickets"), name)
		b.again(t, calls, answers)
		b.again(t, calls[:2], answers[:2])
		require.Equal(t, effects, b.count(t, "tickets"), name)
	}
}

// A call that a stream emits twice is one call, in one message or in two.
func TestCallsThatAreEmittedTwice(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	c := message("acme", 1, ids["Unique"])[0]
	other := c
	other.Args = json.RawMessage(`{"title":"other"}`)
	effects := 0
	for name, deliver := range map[string]func(c, other tool.Invocation) []tool.Answer{
		"AtOnce":   func(c, _ tool.Invocation) []tool.Answer { return b.all(t, []tool.Invocation{c, c}) },
		"OneByOne": func(c, _ tool.Invocation) []tool.Answer { return []tool.Answer{b.invoke(t, c), b.invoke(t, c)} },
		"Grown": func(c, _ tool.Invocation) []tool.Answer {
			return append(b.all(t, []tool.Invocation{c}), b.all(t, []tool.Invocation{c, c})...)
		},
		"BesideOther":  func(c, other tool.Invocation) []tool.Answer { return b.all(t, []tool.Invocation{c, c, other, other}) },
		"SharedBefore": func(c, other tool.Invocation) []tool.Answer { return b.all(t, []tool.Invocation{other, c, c}) },
	} {
		c.Scope, other.Scope = name, name
		distinct := map[string]bool{}
		for _, a := range deliver(c, other) {
			distinct[string(a.JSON)] = true
		}
		effects += len(distinct)
		require.Equal(t, effects, b.count(t, "tickets"), name)
		require.Len(t, distinct, 1+strings.Count(name, "Other")+strings.Count(name, "Shared"), name)
	}
	// A repeat with other arguments does not make an id shared, however often it comes.
	c.Scope = "changed"
	b.invoke(t, c)
	other.Scope = c.Scope
	for _, o := range b.tools.InvokeAll(t.Context(), []tool.Invocation{other, other}) {
		require.ErrorIs(t, o.Err, dedup.ErrKeyReused)
	}
}

// Equal calls of a message with different kinds of identity are told apart in every part of the
// message: none is counted with a call that has another id, or a key.
func TestEqualCallsWithOtherIDs(t *testing.T) {
	t.Parallel()
	type called struct{ id, key, title string }
	b := openAndClose(t)
	effects := 0
	for name, message := range map[string][]called{
		"One without an id":        {{"x", "", "a"}, {"", "", "a"}},
		"One with a key":           {{"", "mine", "a"}, {"", "", "a"}},
		"An id and a key":          {{"x", "mine", "a"}, {"x", "", "a"}},
		"Two shared ids":           {{"y", "", "z"}, {"x", "", "a"}, {"y", "", "a"}},
		"One without, one shared":  {{"x", "", "z"}, {"x", "", "a"}, {"", "", "a"}},
		"Equal under two shared":   {{"x", "", "y"}, {"y", "", "z"}, {"x", "", "a"}, {"y", "", "a"}},
		"An id that was not given": {{"null", "", "a"}, {"x", "", "a"}, {"y", "", "b"}, {"open", "", "b"}},
	} {
		var calls []tool.Invocation
		for _, c := range message {
			calls = append(calls, tool.Invocation{
				Scope: name, Session: "s", Turn: 1, CallID: c.id, Key: c.key,
				Tool: "open", Args: json.RawMessage(`{"title":"` + c.title + `"}`),
			})
		}
		answers := b.all(t, calls)
		effects += len(calls)
		require.Equal(t, effects, b.count(t, "tickets"), name)
		for parts := 1; parts < 1<<len(calls); parts++ {
			var part []tool.Invocation
			var of []tool.Answer
			for i := range calls {
				if parts&(1<<i) != 0 {
					part, of = append(part, calls[i]), append(of, answers[i])
				}
			}
			b.again(t, part, of)
		}
		require.Equal(t, effects, b.count(t, "tickets"), name)
	}
}

// A call whose arguments changed, under an id that no other call of the message has, is refused,
// with the message and without it.
func TestChangedArgumentsStayRefused(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	calls := message("acme", 1, ids["Unique"])
	b.all(t, calls)
	calls[1].Args = json.RawMessage(`{"title":"changed"}`)
	outcomes := b.tools.InvokeAll(t.Context(), calls)
	require.ErrorIs(t, outcomes[1].Err, dedup.ErrKeyReused)
	require.NoError(t, outcomes[0].Err)
	require.ErrorIs(t, b.fails(t, calls[1]), dedup.ErrKeyReused)
	require.Equal(t, len(calls), b.count(t, "tickets"))
}

// Invoke does not guess: two calls without the message stay refused.
func TestSingleCallsOfAMessage(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	calls := message("acme", 1, ids["One for all"])
	b.invoke(t, calls[0])
	require.ErrorIs(t, b.fails(t, calls[1]), dedup.ErrKeyReused, "nothing shows that the id is shared")

	for _, name := range []string{"Empty", "null", "None", "Tool's name"} {
		calls := message("acme", 2, ids[name])
		calls[0].Turn = 0
		require.ErrorIs(t, b.fails(t, calls[0]), dedup.ErrInvalid, "nobody has said which message it is")
		calls[0].Turn = 2
		answer := b.invoke(t, calls[0])
		key, err := dedup.KeyFromToolCallArgs("s", 2, "open", json.RawMessage(`{"title":"a"}`), 0)
		require.NoError(t, err)
		require.Equal(t, key, answer.Key, "all of them make one key")
		require.Equal(t, name != "Empty", answer.Replayed)
	}
	calls[0].CallID, calls[0].Turn = "null", -1
	var invalid *dedup.InvalidError
	require.ErrorAs(t, b.fails(t, calls[0]), &invalid)
	require.Equal(t, "Turn", invalid.Field)
}

// Arguments that are not compared do not change the key, and a call that cannot be made does not
// affect the others.
func TestInvokeAllAnswersEach(t *testing.T) {
	t.Parallel()
	b := openAndClose(t)
	require.NoError(t, b.tools.Add(tool.Tool[ticketIn, int]{
		Name: "count", Class: tool.ReadOnly,
		Run: func(ctx context.Context, tx pgx.Tx, _ ticketIn) (n int, err error) {
			return n, tx.QueryRow(ctx, `SELECT count(*) FROM tickets`).Scan(&n)
		},
	}))
	type pair struct {
		A string `json:"a,omitempty" dedup:"key"`
		B string `json:"b,omitempty" dedup:"key"`
	}
	require.NoError(t, b.tools.Add(tool.Tool[pair, string]{
		Name: "keyed", Class: tool.Write,
		Run: func(context.Context, pgx.Tx, pair) (string, error) {
			return "", errors.New("is run")
		},
	}))
	calls := []tool.Invocation{
		{Scope: "acme", Session: "s", Turn: 3, Tool: "open", Args: json.RawMessage(`{"title":"a","note":"x"}`)},
		{Tool: "unknown"},
		{Scope: "acme", Session: "s", Turn: 3, Tool: "open", Args: json.RawMessage(`{"title":`)},
		{Tool: "count", Args: json.RawMessage(`{"title":"a"}`)},
		{Scope: "acme", Session: "s", Turn: 3, Tool: "open", Key: "mine", Args: json.RawMessage(`{"title":"a"}`)},
		{Scope: "acme", Session: "s", Turn: 3, Tool: "open", Args: json.RawMessage(`{"title":"z"}`)},
		{Scope: "acme", Session: "s", Turn: 3, Tool: "keyed", CallID: "c", Args: json.RawMessage(`{"a":"x"}`)},
	}
	first := b.tools.InvokeAll(t.Context(), calls)
	require.NoError(t, first[0].Err)
	require.ErrorIs(t, first[1].Err, dedup.ErrInvalid)
	var bad *tool.ArgumentError
	require.ErrorAs(t, first[2].Err, &bad)
	require.ErrorAs(t, first[6].Err, &bad)
	require.Equal(t, "b", bad.Field, "a half of the key is none")
	require.Equal(t, "1", string(first[3].Answer.JSON), "in their order")
	require.Equal(t, "mine", first[4].Answer.Key)
	require.Equal(t, 3, b.count(t, "tickets"))

	calls[0].Args = json.RawMessage(`{"note":"y","title":"a"}`)
	requireReplay(t, first[0].Answer, b.tools.InvokeAll(t.Context(), calls)[0].Answer)
	require.Empty(t, b.tools.InvokeAll(t.Context(), nil))
}

// ExternalTools can share ids too.
func TestSharedIDOfExternalTools(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	require.NoError(t, b.tools.Add(charging(func(ctx context.Context, a external.Attempt, in chargeIn) (charge, error) {
		b.runs.Add(1)
		return charged(ctx, a, in)
	})))
	var calls []tool.Invocation
	for i := range 3 {
		calls = append(calls, tool.Invocation{Scope: "acme", Session: "s", Turn: 1, CallID: "x", Tool: "charge", Args: json.RawMessage(fmt.Sprintf(`{"order":"o%d","amount":%d}`, i, i+1))})
	}
	answers := b.all(t, calls)
	require.EqualValues(t, 3, b.runs.Load())
	b.again(t, calls, answers)
	for i := range calls {
		b.again(t, calls[i:i+1], answers[i:i+1])
	}
	require.EqualValues(t, 3, b.runs.Load())
	calls[2].Args = json.RawMessage(`{"order":"other","amount":1}`)
	require.ErrorIs(t, b.fails(t, calls[2]), dedup.ErrKeyReused)
}

// TestSharedIDOfAFreedCall: two calls of a message share an id, and the record of the first is
// freed. The second, given again with its message, is a replay.
func TestSharedIDOfAFreedCall(t *testing.T) {
	t.Parallel()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	tools := tool.NewRegistry(d, nil)
	type in struct {
		Item string `json:"item"`
	}
	runs := map[string]int{}
	require.NoError(t, tools.Add(tool.Tool[in, string]{Name: "add_bag", Class: tool.Write, Run: func(_ context.Context, _ pgx.Tx, in in) (string, error) {
		runs[in.Item]++
		return in.Item, nil
	}}))
	call := func(item string) tool.Invocation {
		return tool.Invocation{Scope: "acme", Session: "17", Turn: 1, CallID: "call_0", Tool: "add_bag", Args: json.RawMessage(`{"item":"` + item + `"}`)}
	}
	give := func(i int) tool.Answer {
		answer, err := tools.Message(call("A"), call("B")).Invoke(t.Context(), i)
		require.NoError(t, err)
		return answer
	}
	first := give(0)
	give(1)
	freed, err := d.Reset(t.Context(), "acme", "add_bag", first.Key, dedup.ChangeOptions{Reason: "A was wrong"})
	require.NoError(t, err)
	require.True(t, freed)
	require.True(t, give(1).Replayed)
	require.Equal(t, map[string]int{"A": 1, "B": 1}, runs)
}
