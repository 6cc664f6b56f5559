package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
)

// TestAnswersTable compares IsAnswer and IsRetryable with the table of docs/guide.md, and checks the
// text that Reply gives a model for each error.
func TestAnswersTable(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/guide.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "\n## Errors\n")
	require.True(t, found)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	recorded := func(answer error) error {
		return &dedup.Error{Kind: answer, Scope: "acme", Tool: "pay", CreatedAt: at, ExpiredAt: at, Changed: []string{"amount"}, Complete: true}
	}
	for _, c := range []struct {
		name string
		err  error
		text string // for a model; empty if Reply returns the error
	}{
		{"`ErrRefused`", fmt.Errorf("around: %w", &dedup.RefusedError{Message: "card declined"}), "card declined"},
		{
			"`*tool.ArgumentError`", &tool.ArgumentError{Tool: "pay", Field: "amount", Reason: "is missing", Err: context.DeadlineExceeded},
			"The argument amount is missing. Nothing was done. Correct the arguments and call again.",
		},
		{
			"a tool that is not registered", &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is not registered"},
			"There is no tool of this name. Nothing was done.",
		},
		{
			"`ErrKeyReused`", recorded(dedup.ErrKeyReused),
			"The key of this call was used before, at 2026-01-02T03:04:05Z, with other values of amount. Nothing was done. If this is a retry, send the arguments of the first time. If it is a new action, make a new call.",
		},
		{
			"`ErrExpired`", recorded(dedup.ErrExpired),
			"This call was carried out at 2026-01-02T03:04:05Z, and its result is no longer kept. Nothing was done again. Look up what it did before doing anything else.",
		},
		{
			"`ErrBroken`", recorded(dedup.ErrBroken),
			"This call may have been carried out without a record of its result, and is blocked so that it is not repeated. Do not call again, with this key or another: somebody has to find out what it did.",
		},
		{
			"`*external.ParkedError`", &external.ParkedError{},
			"It may have happened. Do not repeat it with a new key. Somebody is looking into it.",
		},
		{"any other `ErrInvalid`", &dedup.InvalidError{What: "effect", Reason: "cannot be committed"}, ""},
		{"`ErrSchema`", recorded(dedup.ErrSchema), ""},
		{"`ErrInFlight`", recorded(dedup.ErrInFlight), ""},
		{"`ErrOutcomeUnknown`", recorded(dedup.ErrOutcomeUnknown), ""},
		{"`ErrAttemptsExhausted`", recorded(dedup.ErrAttemptsExhausted), ""},
		{"`ErrRestartTx`", recorded(dedup.ErrRestartTx), ""},
		{"a context's error", context.DeadlineExceeded, ""},
		{"a transient fault", &pgconn.PgError{Code: "40001"}, ""},
		{"the tool's own error", errors.New("no such room"), ""},
	} {
		text, isError, returned := tool.Reply(tool.Answer{}, c.err)
		require.Equal(t, c.text, text, c.name)
		require.Equal(t, c.text != "", isError, c.name)
		if c.text == "" {
			require.Equal(t, c.err, returned)
		} else {
			require.NoError(t, returned, c.name)
		}
		kind := "neither"
		switch {
		case dedup.IsAnswer(c.err):
			kind = "answer"
			require.False(t, dedup.IsRetryable(c.err), c.name)
		case dedup.IsRetryable(c.err):
			kind = "retryable"
		}
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta("| "+c.name+" | ")+`[^|]+`+regexp.QuoteMeta(" | "+kind+" |")+`$`, table)
		require.False(t, dedup.IsAnswer(c.err) && dedup.IsRetryable(errors.Join(c.err, dedup.ErrInFlight)), "an answer stays one")
	}
	text, isError, err := tool.Reply(tool.Answer{JSON: []byte(`{"id":1}`)}, nil)
	require.NoError(t, err)
	require.False(t, isError)
	require.Equal(t, `{"id":1}`, text)
	text, _, err = tool.Reply(tool.Answer{}, &dedup.RefusedError{Message: "ERROR: canary (SQLSTATE 23505)", OfDatabase: true})
	require.NoError(t, err)
	require.NotContains(t, text, "canary")
}

// TestWhichErrorRefuses compares the errors with which a tool refuses a call: AGENTS.md says which
// to return. The ticket exists from the second call on.
func TestWhichErrorRefuses(t *testing.T) {
	t.Parallel()
	type in struct {
		Ticket string `json:"ticket" dedup:"key"`
	}
	for name, c := range map[string]struct {
		refuse func(error) error
		shown  string // to the model
		state  dedup.State
		closed bool // by the second call
	}{
		"Final": {dedup.Final, "no such ticket", dedup.StateRefused, false},
		"ArgumentError": {
			func(error) error { return &tool.ArgumentError{Field: "ticket", Reason: "names no ticket"} },
			"The argument ticket names no ticket. Nothing was done. Correct the arguments and call again.", dedup.StateNotFound, true,
		},
		"Plain": {func(err error) error { return err }, "", dedup.StateNotFound, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, nil, nil)
			require.NoError(t, b.tools.Add(tool.Tool[in, string]{
				Name: "close", Class: tool.Write,
				Run: func(ctx context.Context, tx pgx.Tx, in in) (string, error) {
					tag, err := tx.Exec(ctx, `DELETE FROM tickets WHERE title = $1`, in.Ticket)
					if err == nil && tag.RowsAffected() == 0 {
						err = c.refuse(errors.New("no such ticket"))
					}
					return "closed", err
				},
			}))
			inv := tool.Invocation{Scope: "acme", Tool: "close", Args: []byte(`{"ticket":"a"}`)}
			text, isError, err := tool.Reply(b.tools.Invoke(t.Context(), inv))
			require.Equal(t, c.shown, text)
			require.Equal(t, c.shown != "", isError)
			require.Equal(t, c.shown == "", err != nil, "the run ends")
			status, err := b.d.Lookup(t.Context(), "acme", "close", "a")
			require.NoError(t, err)
			require.Equal(t, c.state, status.State)

			b.exec(t, `INSERT INTO tickets (title) VALUES ('a')`)
			_, err = b.tools.Invoke(t.Context(), inv)
			require.Equal(t, c.closed, err == nil)
			require.Equal(t, c.closed, b.count(t, "tickets") == 0)
		})
	}
}

type own struct{ answer bool }

func (own) Error() string    { return "own" }
func (o own) IsAnswer() bool { return o.answer }

// A user's error type declares itself an answer.
func TestOwnAnswers(t *testing.T) {
	t.Parallel()
	require.True(t, dedup.IsAnswer(fmt.Errorf("around: %w", own{true})))
	require.False(t, dedup.IsRetryable(errors.Join(own{true}, context.DeadlineExceeded)))
	require.False(t, dedup.IsAnswer(own{false}))
	require.True(t, dedup.IsRetryable(errors.Join(own{false}, context.DeadlineExceeded)))
	require.False(t, dedup.IsAnswer(nil))
}

// TestReplyToTwoCallers: the first caller and a repeat get the same refusal, also if the tool
// recorded an error about the arguments.
func TestReplyToTwoCallers(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	bad := &tool.ArgumentError{Tool: "close", Field: "title", Reason: "names no ticket"}
	b.add(t, "final", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.Run = func(context.Context, pgx.Tx, ticketIn) (ticket, error) { return ticket{}, dedup.Final(bad) }
	})
	b.add(t, "stored", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.StoreErrors = true
		d.Run = func(context.Context, pgx.Tx, ticketIn) (ticket, error) { return ticket{}, bad }
	})
	for _, name := range []string{"final", "stored"} {
		first, isError, err := tool.Reply(b.tools.Invoke(t.Context(), call(name, "k", `{"title":"a"}`)))
		require.NoError(t, err, name)
		require.True(t, isError, name)
		again, _, err := tool.Reply(b.tools.Invoke(t.Context(), call(name, "k", `{"title":"a"}`)))
		require.NoError(t, err, name)
		require.Equal(t, first, again, name)
	}
}

// TestReplyHidesInnerCalls: an invalid call inside a tool is the program's fault, and not for the
// model.
func TestReplyHidesInnerCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	inner := dedup.Call{Scope: "acme", Tool: "inner", Key: "k", Args: json.RawMessage(`{"a":1,"a":2}`)}
	for _, class := range []tool.Class{tool.Write, tool.Idempotent} {
		for name, do := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"call": func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, inner, func(context.Context, pgx.Tx) (int, error) { return 1, nil })
				return err
			},
			"fingerprint": func(context.Context, pgx.Tx) error {
				_, err := dedup.FingerprintOf(inner.Args)
				return err
			},
		} {
			named := string(class) + "-" + name
			b.add(t, named, class, func(d *tool.Tool[ticketIn, ticket]) {
				d.Run = func(ctx context.Context, tx pgx.Tx, _ ticketIn) (ticket, error) { return ticket{}, do(ctx, tx) }
			})
			inv := tool.Invocation{Scope: "acme", Tool: named, Args: json.RawMessage(`{"title":"a"}`)}
			if class.NeedsKey() {
				inv.Key = "k"
			}
			err := b.fails(t, inv)
			require.ErrorIs(t, err, dedup.ErrInvalid, named)
			_, _, rest := tool.Reply(tool.Answer{}, err)
			require.Equal(t, err, rest, named)
		}
	}
}

// TestReplyToAnExpiredRefusal: a refusal had no effect, so no text says that it was carried out.
func TestReplyToAnExpiredRefusal(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "pay", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.Retention = dedup.Retention{Result: -1}
		d.Run = func(context.Context, pgx.Tx, ticketIn) (ticket, error) {
			return ticket{}, dedup.Final(errors.New("card declined"))
		}
	})
	require.ErrorIs(t, b.fails(t, call("pay", "k", `{"title":"a"}`)), dedup.ErrRefused)
	err := b.fails(t, call("pay", "k", `{"title":"a"}`))
	require.ErrorIs(t, err, dedup.ErrExpired)
	require.ErrorContains(t, err, "was refused at")
	require.ErrorContains(t, err, "had no effect")
	text, _, rest := tool.Reply(tool.Answer{}, err)
	require.NoError(t, rest)
	require.Regexp(t, `^This call was refused at .*, and the answer was not kept. Nothing was done. If it is a new action, make a new call.$`, text)
}
