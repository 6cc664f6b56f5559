package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// starts records the starts of calls that a tracer sees.
type starts struct{ calls []dedup.CallData }

func (s *starts) TraceCallStart(ctx context.Context, data dedup.CallData) context.Context {
	s.calls = append(s.calls, data)
	return ctx
}
func (*starts) TraceCallEnd(context.Context, dedup.CallEndData) {}
func (*starts) TraceEvent(context.Context, dedup.Event)         {}

// The events of a call have its session and turn.
func TestSessionAndTurnAreAttrs(t *testing.T) {
	t.Parallel()
	seen := &starts{}
	b := setup(t, &dedup.Options{Tracer: seen}, nil)
	b.add(t, "create", tool.Write)
	inv := call("create", "", `{"title":"a"}`)
	inv.Turn, inv.CallID = 4, "call_0"
	b.invoke(t, inv)
	b.invoke(t, call("create", "k", `{"title":"a"}`))
	inv.Session, inv.Key = "", "k2"
	b.invoke(t, inv)

	session := slog.String("session", "s")
	require.Len(t, seen.calls, 3)
	require.Equal(t, []slog.Attr{session, slog.Int("turn", 4)}, seen.calls[0].Attrs)
	require.Equal(t, []slog.Attr{session}, seen.calls[1].Attrs)
	require.Empty(t, seen.calls[2].Attrs)
}

func TestReadOnlyCannotWrite(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	add := func(name, first string) {
		require.NoError(t, b.tools.Add(tool.Tool[ticketIn, int]{
			Name: name, Class: tool.ReadOnly,
			Run: func(ctx context.Context, tx pgx.Tx, in ticketIn) (n int, err error) {
				if first != "" {
					if _, err := tx.Exec(ctx, first); err != nil {
						return 0, err
					}
				}
				return n, tx.QueryRow(ctx, `SELECT count(*) FROM tickets`).Scan(&n)
			},
		}))
	}
	add("count", "")
	add("insert", `INSERT INTO tickets (title) VALUES ('x')`)
	add("open_up", `SET TRANSACTION READ WRITE`)

	for range 2 {
		answer := b.invoke(t, tool.Invocation{Tool: "count", Key: "unused", Args: json.RawMessage(`{"title":"a"}`)})
		require.Equal(t, tool.Answer{JSON: json.RawMessage("0")}, answer, "no scope, no key, no record")
	}
	err := b.fails(t, call("insert", "k", `{"title":"a"}`))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, "insert, which is registered as ReadOnly, tried to write")
	require.False(t, dedup.IsRetryable(err), "the tool is wrong, not the server")
	var late *pgconn.PgError
	require.ErrorAs(t, b.fails(t, call("open_up", "k", `{"title":"a"}`)), &late)
	require.Equal(t, "25001", late.Code, "the mode must be set before any query")
	require.Zero(t, b.count(t, "tickets"))
	require.Zero(t, b.count(t, "tool_dedup"))
}

func TestIdempotentWithAndWithoutKey(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "set", tool.Idempotent)
	without := tool.Invocation{Scope: "acme", Tool: "set", Args: json.RawMessage(`{"title":"a"}`)}
	for range 2 {
		answer := b.invoke(t, without)
		require.Empty(t, answer.Key)
		require.False(t, answer.Replayed)
		require.Zero(t, answer.CreatedAt)
	}
	require.Equal(t, 2, b.count(t, "tickets"))
	require.Zero(t, b.count(t, "tool_dedup"))

	first, again := b.invoke(t, call("set", "k", `{"title":"a"}`)), b.invoke(t, call("set", "k", `{"title":"a"}`))
	require.True(t, again.Replayed)
	require.Equal(t, string(first.JSON), string(again.JSON))
	require.Equal(t, 3, b.count(t, "tickets"))

	without.Scope = ""
	require.ErrorIs(t, b.fails(t, without), dedup.ErrInvalid)
}

func TestWritesNeedKeyAndScope(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "write", tool.Write)
	b.add(t, "destroy", tool.Destructive)
	for _, name := range []string{"write", "destroy"} {
		for _, inv := range []tool.Invocation{
			{},
			{Session: "s"}, // a session without a call id
			{CallID: "c"},  // a call id without a session
			{Turn: 3},
		} {
			inv.Scope, inv.Tool, inv.Args = "acme", name, json.RawMessage(`{"title":"a"}`)
			require.ErrorIs(t, b.fails(t, inv), dedup.ErrInvalid)
		}
		require.ErrorIs(t, b.fails(t, tool.Invocation{Tool: name, Key: "k", Args: json.RawMessage(`{"title":"a"}`)}), dedup.ErrInvalid)
	}
	require.Zero(t, b.runs.Load())

	answer := b.invoke(t, call("write", "k", `{"title":"a"}`))
	require.Equal(t, "k", answer.Key)
	require.NotZero(t, answer.CreatedAt)
	require.Greater(t, answer.ExpiresAt, answer.CreatedAt)
}

func TestKeyPrecedence(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Ref string `json:"ref,omitempty" dedup:"key"`
	}
	require.NoError(t, b.tools.Add(tool.Tool[in, string]{Name: "w", Class: tool.Write, Run: func(context.Context, pgx.Tx, in) (string, error) { return "ok", nil }}))
	inv := tool.Invocation{Scope: "acme", Session: "s", Turn: 2, CallID: "c", Key: "mine", Tool: "w", Args: json.RawMessage(`{"ref":"R1"}`)}
	require.Equal(t, "R1", b.invoke(t, inv).Key)
	inv.Args = nil
	require.Equal(t, "mine", b.invoke(t, inv).Key)
	inv.Key = ""
	derived, err := dedup.KeyFromToolCall("s", 2, "c")
	require.NoError(t, err)
	require.Equal(t, derived, b.invoke(t, inv).Key)
	inv.Turn = -1
	var invalid *dedup.InvalidError
	require.ErrorAs(t, b.fails(t, inv), &invalid)
	require.Equal(t, "Turn", invalid.Field)
}

func TestReusedKeyNamesTheField(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "w", tool.Write)
	b.invoke(t, call("w", "k", `{"title":"canary-one","note":"x"}`))
	answer, err := b.tools.Invoke(t.Context(), call("w", "k", `{"title":"canary-two","note":"y"}`))
	var reused *dedup.Error
	require.ErrorAs(t, err, &reused)
	require.Equal(t, []string{"title"}, reused.Changed)
	require.NotContains(t, err.Error(), "canary")
	require.Equal(t, "k", answer.Key)
	require.NotZero(t, answer.CreatedAt)
	require.Nil(t, answer.JSON)
}

func TestReplaysAreByteEqual(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	const odd = ` {"z": 1.0, "a":"<&>é\u0000"}`
	require.NoError(t, b.tools.Add(
		tool.Tool[struct{}, json.RawMessage]{Name: "raw", Class: tool.Write, Run: func(context.Context, pgx.Tx, struct{}) (json.RawMessage, error) {
			return json.RawMessage(odd), nil
		}},
		tool.Tool[struct{}, json.RawMessage]{Name: "none", Class: tool.Write, Run: func(context.Context, pgx.Tx, struct{}) (json.RawMessage, error) {
			return nil, nil
		}},
		tool.Tool[struct{}, string]{Name: "text", Class: tool.Write, Run: func(context.Context, pgx.Tx, struct{}) (string, error) { return "<&>", nil }},
		tool.Tool[struct{}, json.RawMessage]{Name: "broken", Class: tool.ReadOnly, Run: func(context.Context, pgx.Tx, struct{}) (json.RawMessage, error) {
			return json.RawMessage(`{`), nil
		}},
	))
	for name, want := range map[string]string{"raw": odd, "none": "null", "text": `"<&>"`} {
		first, again := b.invoke(t, call(name, "k", "")), b.invoke(t, call(name, "k", "{}"))
		require.Equal(t, want, string(first.JSON))
		require.Equal(t, want, string(again.JSON))
		require.True(t, again.Replayed)
		require.Equal(t, first.CreatedAt, again.CreatedAt)
	}
	require.ErrorIs(t, b.fails(t, call("broken", "", "")), dedup.ErrInvalid)
}

// A result that encoding/json would change is refused, with the effect rolled back, as dedup.Do
// refuses it.
func TestResultsThatWouldChange(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	for name, result := range map[string]any{
		"String":      "a\xff",
		"MapKey":      map[string]int{"\xff": 1, "\xfe": 2},
		"Raw":         json.RawMessage("\"\xff\""),
		"RawInside":   []json.RawMessage{json.RawMessage("\"\xff\"")},
		"HollowInAny": struct{ id int }{7},
	} {
		for _, class := range []tool.Class{tool.Write, tool.Idempotent} {
			named := name + "-" + string(class)
			require.NoError(t, b.tools.Add(tool.Tool[ticketIn, any]{Name: named, Class: class, Run: func(ctx context.Context, tx pgx.Tx, in ticketIn) (any, error) {
				_, err := b.createTicket(ctx, tx, in)
				return result, err
			}}))
			inv := call(named, "k", `{"title":"a"}`)
			if class == tool.Idempotent {
				inv.Key, inv.Session = "", "" // without a record
			}
			var bad *dedup.InvalidError
			require.ErrorAs(t, b.fails(t, inv), &bad, named)
			require.Equal(t, "result", bad.What, named)
		}
	}
	require.Zero(t, b.count(t, "tickets"))
	require.Zero(t, b.count(t, "tool_dedup"))
}

// The tool was behind mcpdedup's Middleware when it was called first. Its record is no result of
// the registry's tool, whoever asks for it.
func TestRecordOfAMiddleware(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "create", tool.Write)
	inv := call("create", "k", `{"title":"a"}`)
	record := json.RawMessage(`{"io.github.tooldedup/result":1,"content":[{"type":"text","text":"created"}]}`)
	_, err := dedup.Do(t.Context(), b.d, dedup.Call{Scope: "acme", Tool: "create", Key: "k", Args: inv.Args}, func(context.Context, pgx.Tx) (json.RawMessage, error) {
		return record, nil
	})
	require.NoError(t, err)
	one, err := b.tools.Invoke(t.Context(), inv)
	for _, r := range append(b.tools.InvokeAll(t.Context(), []tool.Invocation{inv}), tool.InvokeResult{Answer: one, Err: err}) {
		var bad *dedup.InvalidError
		require.ErrorAs(t, r.Err, &bad)
		require.Equal(t, record, bad.Stored)
		require.Empty(t, r.Answer.JSON)
		require.Equal(t, "k", r.Answer.Key)
	}
	require.Zero(t, b.runs.Load())
}

func TestErrorsOfRun(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	declined := errors.New("card declined")
	fails := func(err error) func(context.Context, pgx.Tx, ticketIn) (ticket, error) {
		return func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) {
			_, _ = b.createTicket(ctx, tx, in)
			return ticket{}, err
		}
	}
	b.add(t, "plain", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Run = fails(declined) })
	b.add(t, "final", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Run = fails(dedup.Final(declined)) })
	b.add(t, "stored", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Run, d.StoreErrors = fails(declined), true })
	b.add(t, "unkeyed", tool.Idempotent, func(d *tool.Tool[ticketIn, ticket]) { d.Run = fails(declined) })

	for range 2 {
		require.ErrorIs(t, b.fails(t, call("plain", "k", `{"title":"a"}`)), declined)
		require.ErrorIs(t, b.fails(t, call("unkeyed", "", `{"title":"a"}`)), declined)
	}
	require.EqualValues(t, 4, b.runs.Load())
	for _, name := range []string{"final", "stored"} {
		before := b.runs.Load()
		var refused *dedup.RefusedError
		for i := range 2 {
			require.ErrorAs(t, b.fails(t, call(name, "k", `{"title":"a"}`)), &refused)
			require.Equal(t, i == 1, refused.Replayed)
			require.Equal(t, "card declined", refused.Message)
		}
		require.Equal(t, before+1, b.runs.Load())
	}
	require.Zero(t, b.count(t, "tickets"))
}

func TestUnknownTool(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	var unknown *dedup.InvalidError
	require.ErrorAs(t, b.fails(t, call("nobody", "k", "{}")), &unknown)
	require.Equal(t, "Tool", unknown.Field)
	require.Contains(t, unknown.Reason, "nobody")
	long := make([]byte, 1<<20)
	require.Less(t, len(b.fails(t, call(string(long), "k", "{}")).Error()), 400)
	_, found := b.tools.Lookup("nobody")
	require.False(t, found)

	b.add(t, "w", tool.Write)
	var none context.Context
	_, err := b.tools.Invoke(none, call("w", "k", `{"title":"a"}`))
	require.ErrorContains(t, err, "ctx")
}

func TestScopes(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "w", tool.Write)
	b.add(t, "i", tool.Idempotent)
	in := func(scope, session string) tool.Invocation {
		return tool.Invocation{Scope: scope, Session: session, Key: "k", Tool: "w", Args: json.RawMessage(`{"title":"` + scope + `"}`)}
	}
	one, other := b.invoke(t, in("acme", "s")), b.invoke(t, in("evil", "s"))
	require.False(t, other.Replayed)
	require.NotEqual(t, string(one.JSON), string(other.JSON))
	require.True(t, b.invoke(t, in("acme", "t")).Replayed, "a key means the same in all sessions")

	var invalid *dedup.InvalidError
	for _, name := range []string{"w", "i"} { // i has no key, so no record that would be refused without a scope
		require.ErrorAs(t, b.fails(t, tool.Invocation{Tool: name, Args: json.RawMessage(`{"title":"a"}`)}), &invalid)
		require.Equal(t, "Scope", invalid.Field)
	}
}

// TestRefusalWithoutARecord: a Final error of a tool without a record becomes the same error as
// with a record, and is not kept.
func TestRefusalWithoutARecord(t *testing.T) {
	t.Parallel()
	tools := setup(t, nil, nil).tools
	for name, class := range map[string]tool.Class{"read": tool.ReadOnly, "set": tool.Idempotent, "write": tool.Write} {
		require.NoError(t, tools.Add(tool.Tool[struct{}, string]{Name: name, Class: class, Run: func(context.Context, pgx.Tx, struct{}) (string, error) {
			return "", dedup.Final(errors.New("no such order"))
		}}))
		inv := tool.Invocation{Scope: "acme", Tool: name}
		if class.NeedsKey() {
			inv.Key = "k"
		}
		_, err := tools.Invoke(t.Context(), inv)
		var refused *dedup.RefusedError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, "no such order", refused.Message)
		require.Equal(t, class.NeedsKey(), !refused.CreatedAt.IsZero(), "recorded")

		require.NoError(t, tools.Add(tool.Tool[struct{}, string]{Name: name + "_open", Class: class, Run: func(context.Context, pgx.Tx, struct{}) (string, error) {
			return "", dedup.NotFinal(dedup.Final(errors.New("no such order")))
		}}))
		inv.Tool = name + "_open"
		_, err = tools.Invoke(t.Context(), inv)
		require.ErrorContains(t, err, "no such order", name)
		require.NotErrorIs(t, err, dedup.ErrRefused, name)

		require.NoError(t, tools.Add(tool.Tool[struct{}, string]{Name: name + "_again", Class: class, Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (string, error) {
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`)
			return "", dedup.Final(err)
		}}))
		inv.Tool = name + "_again"
		_, err = tools.Invoke(t.Context(), inv)
		require.True(t, dedup.IsRetryable(err), "%s: a transient fault is no answer: %v", name, err)
	}
}

// The first caller of a tool whose answer is not kept gets the answer, with a key and with a turn.
func TestToolKeepsNoAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, &dedup.Options{Retention: dedup.Retention{Tombstone: -1}}, nil)
	b.add(t, "mint", tool.Write, func(d *tool.Tool[ticketIn, ticket]) { d.Retention = dedup.Retention{Result: -1, Tombstone: time.Hour} })
	inTurn := call("mint", "", `{"title":"a"}`)
	inTurn.Turn, inTurn.CallID = 4, "call_0"
	for _, inv := range []tool.Invocation{call("mint", "k", `{"title":"a"}`), inTurn} {
		answer := b.invoke(t, inv)
		require.Contains(t, string(answer.JSON), `"title":"a"`)
		require.False(t, answer.CreatedAt.IsZero())
		require.True(t, answer.ExpiresAt.IsZero())
		require.ErrorIs(t, b.fails(t, inv), dedup.ErrExpired)
	}
	require.Equal(t, 2, b.count(t, "tickets"))
	require.Equal(t, 2, b.count(t, "tool_dedup WHERE result IS NULL"))

	// Without a tombstone nothing would remember the call.
	keepsNothing := setup(t, &dedup.Options{Retention: dedup.Retention{Tombstone: -1}}, nil)
	var refused *tool.RegistrationError
	require.ErrorAs(t, keepsNothing.tools.Add(tool.Tool[ticketIn, ticket]{
		Name: "mint", Class: tool.Write, Run: b.createTicket, Retention: dedup.Retention{Result: -1},
	}), &refused)
	require.Equal(t, "Retention", refused.Problems[0].Field)
}
