package contract_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// secret stands in keys, arguments and results: it must not be logged.
const secret = "s3cret"

// scenario makes one call of every kind that a tracer sees.
func scenario(t *testing.T, ctx context.Context, f *fixture) {
	t.Helper()
	secretCall := func(key string) dedup.Call {
		return dedup.Call{Scope: "acme", Tool: "pay", Key: key + secret, Args: map[string]any{"card": secret}}
	}
	result := func(ctx context.Context, tx pgx.Tx) (string, error) { return secret, nil }

	for range 2 { // executed, replayed
		_, err := dedup.Do(ctx, f.d, secretCall("k"), result)
		require.NoError(t, err)
	}
	other := secretCall("k")
	other.Args = map[string]any{"card": secret + "!"}
	_, err := dedup.Do(ctx, f.d, other, result)
	require.ErrorIs(t, err, dedup.ErrKeyReused)

	for range 2 { // refused, and its replay
		_, err = dedup.Do(ctx, f.d, secretCall("refused"), func(context.Context, pgx.Tx) (string, error) {
			return "", dedup.Final(errPaper)
		})
		require.ErrorIs(t, err, dedup.ErrRefused)
	}

	runs := 0 // retried
	_, err = dedup.Do(ctx, f.d, secretCall("retried"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		if runs++; runs > 1 {
			return secret, nil
		}
		_, err := tx.Exec(ctx, raise("40001"))
		return "", err
	})
	require.NoError(t, err)

	conflicting := secretCall("conflict") // resolved conflict
	_, err = dedup.Do(ctx, f.d, conflicting, func(context.Context, pgx.Tx) (ticket, error) {
		return ticket{}, f.rival(ctx, conflicting, "k", ticket{ID: 99, Title: secret})
	})
	require.NoError(t, err)

	_, err = dedup.Do(ctx, f.d, secretCall("broken"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Conn().Exec(ctx, `commit`)
		return secret, err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)

	f.exec(t, `UPDATE tool_dedup SET expires_at = created_at WHERE key LIKE 'k%'`)
	_, err = dedup.Do(ctx, f.d, secretCall("k"), result)
	require.ErrorIs(t, err, dedup.ErrExpired)

	freed, err := f.d.Reset(ctx, "acme", "pay", "k"+secret, dedup.ChangeOptions{Reason: "asked by the customer"})
	require.NoError(t, err)
	require.True(t, freed)
	_, err = f.d.Sweep(ctx, nil)
	require.NoError(t, err)
}

func TestTracerIsToldEveryEventOnce(t *testing.T) {
	t.Parallel()

	first, second := newRecorder(), newRecorder()
	ctx, f := plain.setup(t, &dedup.Options{Tracer: dedup.MultiTracer(first, dedup.MultiTracer(second))})
	scenario(t, ctx, f)

	id := func(key string) dedup.CallData {
		return dedup.CallData{Func: "Do", Scope: "acme", Tool: "pay", Key: key + secret, KeyHash: dedup.KeyHash(key + secret)}
	}
	reset := id("k")
	reset.Func = "Reset"
	want := []struct {
		key      string
		outcome  dedup.Outcome
		err      error
		attempts int
	}{
		{"k", dedup.OutcomeExecuted, nil, 1},
		{"k", dedup.OutcomeReplayed, nil, 1},
		{"k", dedup.OutcomeKeyReused, dedup.ErrKeyReused, 1},
		{"refused", dedup.OutcomeRefused, dedup.ErrRefused, 2},
		{"refused", dedup.OutcomeRefusalReplayed, dedup.ErrRefused, 1},
		{"retried", dedup.OutcomeExecuted, nil, 2},
		{"conflict", dedup.OutcomeReplayed, nil, 1},
		{"broken", dedup.OutcomeBroken, dedup.ErrBroken, 1},
		{"k", dedup.OutcomeExpired, dedup.ErrExpired, 1},
	}
	for _, r := range []*recorder{first, second} {
		ends := events[dedup.CallEndData](r)
		require.Len(t, events[dedup.CallData](r), len(want))
		require.Len(t, ends, len(want))
		for i, w := range want {
			end := ends[i]
			require.Equal(t, id(w.key), end.CallData)
			require.Equal(t, w.outcome, end.Outcome)
			require.ErrorIs(t, end.Err, w.err)
			require.Equal(t, w.attempts, end.Attempts, w.outcome)
			require.Positive(t, end.Duration)
			require.Zero(t, end.Waited)
			switch w.outcome {
			case dedup.OutcomeExecuted, dedup.OutcomeRefused:
				require.Positive(t, end.ResultBytes)
				require.Zero(t, end.Age)
				require.False(t, end.CreatedAt.IsZero())
			case dedup.OutcomeReplayed, dedup.OutcomeRefusalReplayed, dedup.OutcomeExpired:
				require.Positive(t, end.Age)
				require.False(t, end.CreatedAt.IsZero())
			}
		}
		require.True(t, ends[0].CreatedAt.Equal(ends[1].CreatedAt))
		require.Equal(t, ends[0].ResultBytes, ends[1].ResultBytes)

		retried := events[dedup.RetriedData](r)
		require.Len(t, retried, 1)
		require.Equal(t, id("retried"), retried[0].CallData)
		require.Equal(t, 1, retried[0].Attempt)
		require.False(t, retried[0].Unknown)
		requireState(t, retried[0].Err, "40001")
		require.Equal(t, []dedup.ChangedData{{CallData: reset, Reason: "asked by the customer", Freed: true, Audited: true}}, events[dedup.ChangedData](r))
		require.Len(t, events[dedup.SweptData](r), 1)
		require.Empty(t, events[dedup.WaitStartData](r))
	}
}

// spans is a tracer that makes of each call a span, and sees which one the context of an
// effect, of a statement and of a nested call is of.
type spans struct {
	mu    sync.Mutex
	open  map[string]string // by name, the parent's
	ended map[string]dedup.Outcome
	sql   map[string]string // the span that a statement was sent in
}

type spanKey struct{}

func spanOf(ctx context.Context) string {
	name, _ := ctx.Value(spanKey{}).(string)
	return name
}

func (s *spans) TraceCallStart(ctx context.Context, data dedup.CallData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := data.Func + " " + data.Key
	s.open[name] = spanOf(ctx)
	return context.WithValue(ctx, spanKey{}, name)
}

func (*spans) TraceEvent(context.Context, dedup.Event) {}

func (s *spans) TraceCallEnd(ctx context.Context, data dedup.CallEndData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := data.Func + " " + data.Key
	if spanOf(ctx) != name || s.ended[name] != "" {
		panic("a call ends in another's context, or twice: " + name)
	}
	s.ended[name] = data.Outcome
}

func (s *spans) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sql[data.SQL] = spanOf(ctx)
	return ctx
}

func (s *spans) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestCallsAreSpans: every call of every function begins and ends once, with any outcome, and its
// context reaches the effect.
func TestCallsAreSpans(t *testing.T) {
	t.Parallel()

	s := &spans{open: map[string]string{}, ended: map[string]dedup.Outcome{}, sql: map[string]string{}}
	ctx, f := plain.setup(t, &dedup.Options{Tracer: s}, func(c *pgxpool.Config) { c.ConnConfig.Tracer = s })
	ctx = context.WithValue(ctx, spanKey{}, "request")
	fine := func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := tx.Exec(ctx, "SELECT 1 AS inside")
		return 1, err
	}
	do := func(key string, e dedup.Effect[int]) { _, _ = dedup.Do(ctx, f.d, call(key), e) }

	do("outer", func(ctx context.Context, tx pgx.Tx) (int, error) {
		_, err := dedup.DoTx(ctx, f.d, tx, call("inner"), fine)
		return 1, err
	})
	do("fails", func(context.Context, pgx.Tx) (int, error) { return 0, errPaper })
	do("refuses", func(context.Context, pgx.Tx) (int, error) { return 0, dedup.Final(errPaper) })
	do("", fine)
	do("nested", func(ctx context.Context, _ pgx.Tx) (int, error) {
		_, err := dedup.Do(ctx, f.d, call("within"), fine)
		return 0, err
	})
	require.Panics(t, func() { do("panics", func(context.Context, pgx.Tx) (int, error) { panic("no") }) })
	do("passes on", func(ctx context.Context, tx pgx.Tx) (int, error) {
		return dedupValue(dedup.DoTx(ctx, f.d, tx, call("refused inside"), func(context.Context, pgx.Tx) (int, error) { return 0, dedup.Final(errPaper) }))
	})
	marshals := single("marshals")
	marshals.Call.Args = panickingArg{}
	require.Panics(t, func() {
		for range dedup.DoBatch[ticket](ctx, f.d, slices.Values([]dedup.StatementCall{marshals}), nil) {
		}
	})
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := dedup.Do(cancelled, f.d, call("cancelled"), fine)
	require.ErrorIs(t, err, context.Canceled)
	_, err = dedup.DoStatement[ticket](ctx, f.d, call("statement"), single("statement").Statement)
	require.NoError(t, err)
	bad := dedup.StatementCall{Call: call("bad"), Statement: dedup.SQL("DELETE FROM nowhere")}
	for range dedup.DoBatch[ticket](ctx, f.d, slices.Values([]dedup.StatementCall{single("b1"), single("b2"), bad}), nil) {
	}
	want := map[string]dedup.Outcome{
		"Do outer": dedup.OutcomeExecuted, "DoTx inner": dedup.OutcomeExecuted, "Do fails": dedup.OutcomeError,
		"Do refuses": dedup.OutcomeRefused, "Do ": dedup.OutcomeInvalid, "Do panics": dedup.OutcomeError,
		"Do nested": dedup.OutcomeInvalid, "Do within": dedup.OutcomeInvalid, // whose error it returns
		"Do passes on": dedup.OutcomeError, "DoTx refused inside": dedup.OutcomeRefused,
		"DoBatch marshals": dedup.OutcomeError,
		"Do cancelled":     dedup.OutcomeCancelled, "DoStatement statement": dedup.OutcomeExecuted,
		"DoBatch b1": dedup.OutcomeExecuted, "DoBatch b2": dedup.OutcomeExecuted, "DoBatch bad": dedup.OutcomeError,
	}
	require.Equal(t, want, s.ended)
	require.Len(t, s.open, len(want))
	for name, parent := range s.open {
		switch name {
		case "DoTx inner":
			require.Equal(t, "Do outer", parent)
		case "DoTx refused inside":
			require.Equal(t, "Do passes on", parent)
		case "Do within":
			require.Equal(t, "Do nested", parent)
		default:
			require.Equal(t, "request", parent, name)
		}
	}
	require.Equal(t, "DoTx inner", s.sql["SELECT 1 AS inside"])

	counted, outcomes := map[dedup.Outcome]int64{}, map[dedup.Outcome]int64{}
	for _, of := range f.d.Stats().Calls {
		require.Equal(t, call("").Tool, of.Tool)
		counted[of.Outcome] = of.Calls
	}
	for _, outcome := range want {
		outcomes[outcome]++
	}
	require.Equal(t, outcomes, counted, "Stats counts what tracers see")
	require.Empty(t, f.d.Stats().InFlight)
}

// panickingArg is an argument whose encoding panics.
type panickingArg struct{}

func (panickingArg) MarshalJSON() ([]byte, error) { panic("no text") }

func dedupValue[R any](result dedup.Result[R], err error) (R, error) { return result.Value, err }
