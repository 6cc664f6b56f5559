package tool_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
)

// releases has the registries of two releases of one program on one database. The later release
// renamed open, and the external tool charge.
func releases(t *testing.T) (b *bundle, before, after *tool.Registry) {
	t.Helper()
	b, _ = withExternal(t)
	charge := charging(func(ctx context.Context, a external.Attempt, in chargeIn) (charge, error) {
		b.runs.Add(1)
		return charged(ctx, a, in)
	})
	b.add(t, "open", tool.Write)
	require.NoError(t, b.tools.Add(charge))
	later, err := external.New(b.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, later.Close(context.WithoutCancel(t.Context()))) })
	after = tool.NewRegistry(b.d, &tool.Options{External: later})
	charge.Name, charge.RecordedAs = "charge_card", "charge"
	require.NoError(t, after.Add(charge, tool.Tool[ticketIn, ticket]{Name: "open_ticket", RecordedAs: "open", Class: tool.Write, Run: b.createTicket}))
	return b, b.tools, after
}

// A call of a renamed tool is one call in both releases, whichever comes first and whichever name
// it uses.
func TestRenamedTool(t *testing.T) {
	t.Parallel()
	b, before, after := releases(t)
	for _, names := range [][2]string{{"open", "open_ticket"}, {"charge", "charge_card"}} {
		args := json.RawMessage(`{"title":"a"}`)
		if names[0] == "charge" {
			args = json.RawMessage(`{"order":"a","amount":1}`)
		}
		for way, inv := range map[string]tool.Invocation{
			"Key":   {Key: "k"},
			"ID":    {Session: "s", Turn: 1, CallID: "x"},
			"NoID":  {Session: "s", Turn: 2},
			"Named": {Session: "s", Turn: 3, CallID: names[0]},
		} {
			for _, first := range []*tool.Registry{before, after} {
				inv.Scope, inv.Args = map[bool]string{true: "before ", false: "after "}[first == before]+way, args
				runs := b.runs.Load()
				var answers []tool.Answer
				for _, r := range []*tool.Registry{first, before, after} {
					inv.Tool = names[0]
					if r == after && way != "Named" {
						inv.Tool = names[1]
					}
					answer, err := r.Invoke(t.Context(), inv)
					require.NoError(t, err, inv)
					answers = append(answers, answer)
				}
				requireReplay(t, answers[0], answers[1])
				requireReplay(t, answers[0], answers[2])
				require.Equal(t, runs+1, b.runs.Load(), "%s %s", way, names[0])
			}
		}
	}
	info, _ := after.Lookup("open")
	require.Equal(t, "open_ticket", info.Name, "the registry knows it by both names")
	require.Len(t, after.Tools(), 2, "and lists it once")
	status, err := after.Status(t.Context(), tool.Invocation{Scope: "before Key", Tool: "charge_card", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, external.StateDone, status.State)
}

// Both releases run in parallel: a call has one lock.
func TestRenamedToolAtOnce(t *testing.T) {
	t.Parallel()
	b, before, after := releases(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			inv := call([]string{"open", "open_ticket"}[i%2], "k", `{"title":"a"}`)
			_, err := []*tool.Registry{before, after}[i%2].Invoke(t.Context(), inv)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Equal(t, 1, b.count(t, "tickets"))
}

// No other tool can have a tool's RecordedAs as its name.
func TestRenamedToolIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "open", tool.Write)
	named := func(name, recorded string) tool.Definition {
		return tool.Tool[ticketIn, ticket]{Name: name, RecordedAs: recorded, Class: tool.Write, Run: b.createTicket}
	}
	for _, c := range []struct {
		tools []tool.Definition
		field string
	}{
		{[]tool.Definition{named("other", "open")}, "RecordedAs"},
		{[]tool.Definition{named("a", "old"), named("b", "old")}, "RecordedAs"},
		{[]tool.Definition{named("a", "old"), named("old", "")}, "Name"},
		{[]tool.Definition{named("a", "a b")}, "RecordedAs"},
	} {
		var registration *tool.RegistrationError
		require.ErrorAs(t, b.tools.Add(c.tools...), &registration)
		require.Len(t, registration.Problems, 1)
		require.Equal(t, c.field, registration.Problems[0].Field)
	}
	require.NoError(t, b.tools.Add(named("a", "old")))
	var registration *tool.RegistrationError
	require.ErrorAs(t, b.tools.Add(named("old", "")), &registration)
}

// A tool finds its call in its context, for every class and every kind of key.
func TestInvocationOf(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	type seen struct {
		Scope, Session, CallID, Key, Tool string
		Turn                              int
	}
	see := func(ctx context.Context) seen {
		inv := tool.InvocationOf(ctx)
		return seen{inv.Scope, inv.Session, inv.CallID, inv.Key, inv.Tool, inv.Turn}
	}
	for _, class := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write, tool.Destructive} {
		require.NoError(t, b.tools.Add(tool.Tool[struct{}, seen]{
			Name: string(class), Class: class,
			Run: func(ctx context.Context, _ pgx.Tx, _ struct{}) (seen, error) { return see(ctx), nil },
		}))
	}
	require.NoError(t, b.tools.Add(tool.ExternalTool[struct{}, seen]{Tool: external.Tool[struct{}, seen]{
		Name: "outside", Perform: func(ctx context.Context, _ external.Attempt, _ struct{}) (seen, error) { return see(ctx), nil },
	}}))
	key, err := dedup.KeyFromToolCall("s", 4, "x")
	require.NoError(t, err)
	for _, info := range b.tools.Tools() {
		want := seen{Scope: "acme", Session: "s", Turn: 4, CallID: "x", Tool: info.Name, Key: key}
		if info.Class == tool.ReadOnly {
			want.Key = ""
		}
		answer := b.invoke(t, tool.Invocation{Scope: "acme", Session: "s", Turn: 4, CallID: "x", Tool: info.Name, Args: json.RawMessage(`null`)})
		text, err := json.Marshal(want)
		require.NoError(t, err)
		require.JSONEq(t, string(text), string(answer.JSON), info.Name)
	}
	require.Equal(t, tool.Invocation{}, tool.InvocationOf(t.Context()))
}
