package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/tool"
)

type (
	chargeIn struct {
		Order  string `json:"order"`
		Amount int64  `json:"amount"`
		Note   string `json:"note,omitempty" dedup:"ignore"`
	}
	charge struct {
		ID string `json:"id"`
	}
)

func refOf(c charge) string { return c.ID }

// withExternal returns a bundle whose registry has Options.External.
func withExternal(t *testing.T) (*bundle, *external.Tools) {
	t.Helper()
	b := setup(t, nil, nil)
	x, err := external.New(b.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		require.NoError(t, x.Close(ctx))
	})
	b.tools = tool.NewRegistry(b.d, &tool.Options{External: x})
	return b, x
}

// charging returns an ExternalTool named charge.
func charging(perform func(ctx context.Context, a external.Attempt, in chargeIn) (charge, error)) tool.ExternalTool[chargeIn, charge] {
	return tool.ExternalTool[chargeIn, charge]{Tool: external.Tool[chargeIn, charge]{Name: "charge", Perform: perform}}
}

func charged(context.Context, external.Attempt, chargeIn) (charge, error) {
	return charge{"ch_<1>&"}, nil
}

func TestExternalIsRefused(t *testing.T) {
	t.Parallel()
	b, x := withExternal(t)
	type secret struct {
		Card  string `json:"card" dedup:"redact"`
		Inner struct {
			PIN string `json:"pin" dedup:"redact"`
		} `json:"inner"`
	}
	_, err := external.Add(x, external.Tool[chargeIn, charge]{Name: "by_itself", Perform: charged})
	require.NoError(t, err)
	b.add(t, "ordinary", tool.Write)
	change := func(f func(*tool.ExternalTool[chargeIn, charge])) tool.Definition {
		made := charging(charged)
		f(&made)
		return made
	}
	for name, tt := range map[string]struct {
		tool          tool.Definition
		field, reason string
	}{
		"OddName":            {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Name = "a b" }), "Name", "must be 1 to 128 letters"},
		"Write":              {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Class = tool.Write }), "Class", "is write; an ExternalTool is External"},
		"NoPerform":          {charging(nil), "Perform", "is nil"},
		"NoRef":              {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.KeyKept = time.Hour }), "Ref", "is nil"},
		"Settles":            {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Settles = time.Hour }), "Settles", "no use"},
		"Timeout":            {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Ref, d.KeyKept = refOf, time.Minute }), "Timeout", "a quarter of KeyKept"},
		"Retention":          {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Retention.Result = -1 }), "Retention", "Result must not be negative"},
		"Taken":              {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Name = "ordinary" }), "Name", "is another tool's already"},
		"TakenByItself":      {change(func(d *tool.ExternalTool[chargeIn, charge]) { d.Name = "by_itself" }), "Name", "is another tool's already"},
		"OrdinaryOfThatName": {tool.Tool[ticketIn, ticket]{Name: "by_itself", Class: tool.Write, Run: b.createTicket}, "Name", "is another tool's already"},
		"Redacted": {tool.ExternalTool[secret, charge]{Tool: external.Tool[secret, charge]{Name: "t", Perform: func(context.Context, external.Attempt, secret) (c charge, err error) {
			return c, nil
		}}}, "In.inner.pin", "is stored; pass a reference to the secret"},
		"NoStruct": {tool.ExternalTool[string, charge]{Tool: external.Tool[string, charge]{Name: "t", Perform: func(context.Context, external.Attempt, string) (c charge, err error) {
			return c, nil
		}}}, "In", "must be a struct"},
		"OutFunc": {tool.ExternalTool[chargeIn, func()]{Tool: external.Tool[chargeIn, func()]{Name: "t", Perform: func(context.Context, external.Attempt, chargeIn) (f func(), err error) {
			return f, nil
		}}}, "Out", "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := b.tools.Add(tt.tool)
			var registration *tool.RegistrationError
			require.ErrorAs(t, err, &registration)
			count := 0
			for _, p := range registration.Problems {
				if p.Field == tt.field && strings.Contains(p.Reason, tt.reason) {
					count++
				}
				require.NotContains(t, registration.Problems[1:], registration.Problems[0], "said once")
			}
			require.Equal(t, 1, count, err.Error())
		})
	}
}

// TestExternalAddsAllOrNone: a refused Add leaves no tool in Options.External.
func TestExternalAddsAllOrNone(t *testing.T) {
	t.Parallel()
	b, x := withExternal(t)
	bad := charging(charged)
	bad.Name, bad.KeyKept = "bad", time.Hour
	err := b.tools.Add(charging(charged), bad, charging(charged))
	require.EqualError(t, err, `tool: not registered:
	bad: Ref is nil; Find and KeyKept need it to tell two effects apart
	charge: Name is another tool's already`)
	require.False(t, x.Has("charge"))
	require.NoError(t, b.tools.Add(charging(charged)))
	require.True(t, x.Has("charge"))
	info, _ := b.tools.Lookup("charge")
	require.True(t, info.External)

	without := tool.NewRegistry(b.d, nil)
	err = without.Add(bad)
	require.EqualError(t, err, `tool: not registered:
	bad: Options.External is missing, and the registry runs ExternalTools with it; make it with external.New
	bad: Ref is nil; Find and KeyKept need it to tell two effects apart`)
	other, err := dedup.New(b.pool, nil)
	require.NoError(t, err)
	require.PanicsWithValue(t, "tool: NewRegistry: Options.External has another Deduper", func() {
		tool.NewRegistry(other, &tool.Options{External: x})
	})
}

// A write in Refuse is an effect too.
func TestInvokeInsideARefusal(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	b.add(t, "w", tool.Write)
	made := charging(func(context.Context, external.Attempt, chargeIn) (charge, error) {
		return charge{}, dedup.Final(errors.New("declined"))
	})
	inner := errors.New("never called")
	made.Refused = func(ctx context.Context, _ pgx.Tx, _ chargeIn, _ error) error {
		_, inner = b.tools.Invoke(ctx, call("w", "other", `{"title":"a"}`))
		return nil
	}
	require.NoError(t, b.tools.Add(made))
	require.ErrorIs(t, b.fails(t, call("charge", "k", `{"order":"o-1","amount":1}`)), dedup.ErrRefused)
	require.ErrorIs(t, inner, dedup.ErrInvalid)
}

// TestExternalIsInvoked: calls that differ in ignored arguments only are one call, and all get the
// same text. All the arguments are stored until then.
func TestExternalIsInvoked(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	performed, stored := 0, ""
	made := charging(func(ctx context.Context, a external.Attempt, in chargeIn) (charge, error) {
		performed++
		require.NoError(t, b.pool.QueryRow(ctx, `SELECT input FROM tool_effect`).Scan(&stored))
		require.Equal(t, chargeIn{"o-1", 100, "a note"}, in)
		require.Equal(t, "k", a.CallKey)
		return charged(t.Context(), a, in)
	})
	made.Finish = func(ctx context.Context, _ pgx.Tx, _ chargeIn, _ charge) error {
		_, err := b.tools.Invoke(ctx, call("charge", "other", `{"order":"o-2","amount":1}`))
		require.ErrorIs(t, err, dedup.ErrInvalid, "a tool cannot make calls in its transaction")
		return nil
	}
	require.NoError(t, b.tools.Add(made))

	first := b.invoke(t, call("charge", "k", `{"order":"o-1","amount":1e2,"note":"a note"}`))
	require.Equal(t, `{"id":"ch_<1>&"}`, string(first.JSON))
	require.Equal(t, "k", first.Key)
	require.False(t, first.Replayed)
	require.False(t, first.CreatedAt.IsZero())
	require.JSONEq(t, `{"order":"o-1","amount":100,"note":"a note"}`, stored)

	again := b.invoke(t, call("charge", "k", `{"order":"o-1","amount":100,"note":"another"}`))
	require.True(t, again.Replayed)
	first.Replayed = true
	require.Equal(t, first, again)
	require.Equal(t, 1, performed)

	err := b.fails(t, call("charge", "k", `{"order":"o-1","amount":200}`))
	var reused *dedup.Error
	require.ErrorAs(t, err, &reused)
	require.ErrorIs(t, err, dedup.ErrKeyReused)
	require.Equal(t, []string{"amount"}, reused.Changed)
	var argument *tool.ArgumentError
	require.ErrorAs(t, b.fails(t, call("charge", "k2", `{"order":"o-1","amount":"x"}`)), &argument)
	var invalid *dedup.InvalidError
	inv := call("charge", "", `{"order":"o-1","amount":1}`)
	require.ErrorAs(t, b.fails(t, inv), &invalid)
	require.Equal(t, "Key", invalid.Field)

	status, err := b.tools.Status(t.Context(), call("charge", "k", ""))
	require.NoError(t, err)
	require.Equal(t, external.StateDone, status.State)
	require.Equal(t, string(first.JSON), string(status.Record.Result))
	status, err = b.tools.Status(t.Context(), tool.Invocation{Scope: "another", Tool: "charge", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, external.StateNone, status.State)
	b.add(t, "ordinary", tool.Write)
	b.invoke(t, call("ordinary", "k", `{"title":"a"}`))
	status, err = b.tools.Status(t.Context(), call("ordinary", "k", ""))
	require.NoError(t, err)
	require.Equal(t, dedup.StateDone, status.Record.State, "of other tools there is a record alone")
	for _, c := range []struct{ field, scope, tool string }{
		{"Scope", "", "charge"}, {"Tool", "acme", "none"},
	} {
		_, err = b.tools.Status(t.Context(), tool.Invocation{Scope: c.scope, Tool: c.tool, Key: "k"})
		require.ErrorAs(t, err, &invalid, c)
		require.Equal(t, c.field, invalid.Field, c)
	}
}

// TestExternalAnswers: a caller can tell parked, in flight and refused apart.
func TestExternalAnswers(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	entered, release := make(chan struct{}), make(chan struct{})
	made := charging(func(_ context.Context, _ external.Attempt, in chargeIn) (charge, error) {
		switch in.Order {
		case "lost":
			return charge{}, errors.New("the answer is lost")
		case "declined":
			return charge{}, dedup.Final(errors.New("card declined"))
		}
		close(entered)
		<-release
		return charge{"ch_1"}, nil
	})
	made.MaxWait = -1 // the other calls return at once
	require.NoError(t, b.tools.Add(made))

	for range 2 {
		answer, err := b.tools.Invoke(t.Context(), call("charge", "k1", `{"order":"lost","amount":1}`))
		var parked *external.ParkedError
		require.ErrorAs(t, err, &parked)
		require.False(t, dedup.IsRetryable(err))
		require.Equal(t, "k1", answer.Key)
		require.Equal(t, external.StateParked, parked.Operation.State)
	}
	for _, replayed := range []bool{false, true} {
		var refused *dedup.RefusedError
		require.ErrorAs(t, b.fails(t, call("charge", "k2", `{"order":"declined","amount":1}`)), &refused)
		require.Equal(t, replayed, refused.Replayed)
	}
	slow := call("charge", "k3", `{"order":"slow","amount":1}`)
	first := make(chan tool.Answer)
	go func() {
		answer, _ := b.tools.Invoke(t.Context(), slow)
		first <- answer
	}()
	<-entered
	answer, err := b.tools.Invoke(t.Context(), slow)
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.True(t, dedup.IsRetryable(err))
	require.Equal(t, "k3", answer.Key)
	for key, want := range map[string]external.State{"k1": external.StateParked, "k2": external.StateRefused, "k3": external.StateRunning, "k4": external.StateNone} {
		status, err := b.tools.Status(t.Context(), call("charge", key, ""))
		require.NoError(t, err)
		require.Equal(t, want, status.State, key)
	}
	close(release)
	require.JSONEq(t, `{"id":"ch_1"}`, string((<-first).JSON))
}

// TestExternalKeyInArguments: fields tagged key are the key of an ExternalTool too.
func TestExternalKeyInArguments(t *testing.T) {
	t.Parallel()
	b, _ := withExternal(t)
	require.NoError(t, b.tools.Add(tool.ExternalTool[withKey, charge]{Tool: external.Tool[withKey, charge]{
		Name: "refund", Perform: func(_ context.Context, a external.Attempt, in withKey) (charge, error) { return charge{a.CallKey}, nil },
	}}))
	answer := b.invoke(t, tool.Invocation{Scope: "acme", Tool: "refund", Args: json.RawMessage(`{"id":"order 7"}`)})
	require.Equal(t, "order 7", answer.Key)
	require.JSONEq(t, `{"id":"order 7"}`, string(answer.JSON))
}
