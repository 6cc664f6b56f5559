package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// guarded is a bundle with the tool w, whose guard takes an action.
func guarded(t *testing.T, opts *dedup.Options, guard tool.LookalikeGuard, change ...func(*bundle, *tool.Tool[ticketIn, ticket])) (*bundle, *events) {
	t.Helper()
	told := &events{}
	b := setup(t, opts, &tool.Options{OnLookalike: told.add})
	b.add(t, "w", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.Lookalikes = guard
		for _, f := range change {
			f(b, d)
		}
	})
	return b, told
}

type events struct {
	mu  sync.Mutex
	all []tool.LookalikeEvent
}

func (e *events) add(event tool.LookalikeEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func TestReportRunsAndMarks(t *testing.T) {
	t.Parallel()
	b, told := guarded(t, nil, tool.LookalikeGuard{Action: tool.Report})
	first := b.invoke(t, call("w", "k1", `{"title":"a","note":"x"}`))
	require.Nil(t, first.Lookalike)
	second := b.invoke(t, call("w", "k2", `{"note":"y","title":"a"}`))
	require.NotNil(t, second.Lookalike)
	require.Equal(t, dedup.KeyHash("k1"), second.Lookalike.KeyHash)
	require.Equal(t, string(first.JSON), string(second.Lookalike.Result))
	require.WithinRange(t, second.Lookalike.At, first.FirstAt.Add(-time.Minute), first.FirstAt)
	require.NotEqual(t, string(first.JSON), string(second.JSON), "the second booking is made")
	require.Equal(t, 2, b.count(t, "tickets"))
	require.Equal(t, []tool.LookalikeEvent{{
		Scope: "acme", Tool: "w", KeyHash: dedup.KeyHash("k2"), Earlier: *second.Lookalike, Action: tool.Report,
	}}, told.all)

	// Replays keep the mark, also when a third has come and the window is over.
	b.invoke(t, call("w", "k3", `{"title":"a"}`))
	b.exec(t, `UPDATE tool_lookalike SET at = at - interval '2 hours'`)
	again := b.invoke(t, call("w", "k2", `{"title":"a"}`))
	require.True(t, again.Replayed)
	require.Equal(t, second.Lookalike, again.Lookalike)
	require.Nil(t, b.invoke(t, call("w", "k1", `{"title":"a"}`)).Lookalike)
	require.Len(t, told.all, 2, "replays are no events")

	// What differs in anything is no lookalike.
	for _, other := range []tool.Invocation{
		call("w", "k4", `{"title":"b"}`),
		{Scope: "evil", Session: "s", Tool: "w", Key: "k5", Args: json.RawMessage(`{"title":"a"}`)},
		{Scope: "acme", Session: "other", Tool: "w", Key: "k6", Args: json.RawMessage(`{"title":"a"}`)},
	} {
		require.Nil(t, b.invoke(t, other).Lookalike)
	}
}

func TestRefuseUntilConfirmed(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]dedup.ErrorPolicy{"RollBack": dedup.ErrorsRollBack, "Stored": dedup.ErrorsStored} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, told := guarded(t, nil, tool.LookalikeGuard{Action: tool.Refuse}, func(_ *bundle, d *tool.Tool[ticketIn, ticket]) { d.Errors = policy })
			first := b.invoke(t, call("w", "k1", `{"title":"canary"}`))
			for range 2 {
				answer, err := b.tools.Invoke(t.Context(), call("w", "k2", `{"title":"canary"}`))
				var alike *tool.LookalikeError
				require.ErrorAs(t, err, &alike)
				require.Equal(t, string(first.JSON), string(alike.Earlier.Result))
				require.Equal(t, dedup.KeyHash("k1"), alike.Earlier.KeyHash)
				require.Equal(t, dedup.KeyHash("k2"), alike.KeyHash)
				require.NotContains(t, err.Error(), "canary")
				require.False(t, dedup.IsRetryable(err))
				require.NotErrorIs(t, err, dedup.ErrRefused, "it is not stored")
				require.Equal(t, "k2", answer.Key)
			}
			require.EqualValues(t, 1, b.runs.Load())
			require.Equal(t, 1, b.count(t, "tool_dedup"))
			require.Len(t, told.all, 2)

			confirmed := call("w", "k2", `{"title":"canary"}`)
			confirmed.Confirmed = true
			second := b.invoke(t, confirmed)
			require.False(t, second.Replayed)
			require.NotNil(t, second.Lookalike)
			require.True(t, told.all[2].Confirmed)
			confirmed.Confirmed = false
			require.True(t, b.invoke(t, confirmed).Replayed, "what has run is replayed and not refused")
			require.True(t, b.invoke(t, call("w", "k1", `{"title":"canary"}`)).Replayed)
			require.Equal(t, 2, b.count(t, "tickets"))
		})
	}
}

// A call that had no effect is not what a later one equals.
func TestFailuresAreNoLookalikes(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"Error": errors.New("sold out"), "Refusal": dedup.Final(errors.New("sold out"))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, told := guarded(t, nil, tool.LookalikeGuard{Action: tool.Refuse}, func(b *bundle, d *tool.Tool[ticketIn, ticket]) {
				d.Run = func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) {
					out, err := b.createTicket(ctx, tx, in)
					if err == nil && b.runs.Load() == 1 {
						return out, failure
					}
					return out, err
				}
			})
			b.fails(t, call("w", "k1", `{"title":"a"}`))
			require.Nil(t, b.invoke(t, call("w", "k2", `{"title":"a"}`)).Lookalike)
			require.Empty(t, told.all)
		})
	}
}

func TestLookalikesAtOnce(t *testing.T) {
	t.Parallel()
	for _, opts := range []*dedup.Options{nil, {Order: dedup.ClaimFirst}, {Isolation: pgx.Serializable}} {
		name := "Default"
		if opts != nil {
			name = fmt.Sprint(opts.Order, opts.Isolation)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := guarded(t, opts, tool.LookalikeGuard{Action: tool.Refuse})
			for round := range 5 {
				const callers = 3
				errs := make([]error, callers)
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						_, errs[i] = b.tools.Invoke(t.Context(), call("w", fmt.Sprint("k", round, "-", i), fmt.Sprintf(`{"title":"%d"}`, round)))
					})
				}
				all.Wait()
				refused := 0
				for _, err := range errs {
					var alike *tool.LookalikeError
					if errors.As(err, &alike) {
						refused++
						require.NotNil(t, alike.Earlier.Result)
						continue
					}
					require.NoError(t, err)
				}
				require.Equal(t, callers-1, refused)
				require.Equal(t, round+1, b.count(t, "tickets"))
			}
		})
	}
}

func TestWindowIsTheDatabases(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, nil, tool.LookalikeGuard{Action: tool.Refuse, Window: 10 * time.Minute})
	b.invoke(t, call("w", "k1", `{"title":"a"}`))
	b.exec(t, `UPDATE tool_lookalike SET at = clock_timestamp() - interval '9 minutes 30 seconds'`)
	var alike *tool.LookalikeError
	require.ErrorAs(t, b.fails(t, call("w", "k2", `{"title":"a"}`)), &alike)
	b.exec(t, `UPDATE tool_lookalike SET at = clock_timestamp() - interval '10 minutes'`)
	require.Nil(t, b.invoke(t, call("w", "k2", `{"title":"a"}`)).Lookalike)
}

// The earlier result is nil once its record has expired.
func TestEarlierResultExpires(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, nil, tool.LookalikeGuard{Action: tool.Report})
	b.invoke(t, call("w", "k1", `{"title":"a"}`))
	b.exec(t, `UPDATE tool_dedup SET expires_at = clock_timestamp()`)
	alike := b.invoke(t, call("w", "k2", `{"title":"a"}`)).Lookalike
	require.NotNil(t, alike)
	require.Nil(t, alike.Result)
}

func TestCleaningKeepsTheTableBounded(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, nil, tool.LookalikeGuard{Action: tool.Report})
	b.exec(t, `INSERT INTO tool_lookalike (likeness, key, at, until)
		SELECT sha256(n::text::bytea), n::text, now() - interval '2 days', now() - interval '1 day' FROM generate_series(1, 20) AS n`)
	for i := range 10 {
		b.invoke(t, call("w", fmt.Sprint("k", i), fmt.Sprintf(`{"title":"%d"}`, i)))
		require.Equal(t, 20-2*(i+1)+(i+1), b.count(t, "tool_lookalike"))
	}
	// Rows are kept for as long as their answer is replayed.
	var kept time.Duration
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(until - at) FROM tool_lookalike`).Scan(&kept))
	require.Equal(t, 24*time.Hour, kept)
}

func TestGuardWithoutItsTable(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, &dedup.Options{Errors: dedup.ErrorsStored}, tool.LookalikeGuard{Action: tool.Report})
	b.add(t, "plain", tool.Write)
	require.NoError(t, b.tools.Check(t.Context()))
	require.Zero(t, b.count(t, "tool_lookalike"))

	b.exec(t, `ALTER TABLE tool_lookalike RENAME TO away`)
	const hint = "needs the table \"public\".\"tool_lookalike\": run `dedup migrate up`"
	require.ErrorContains(t, b.tools.Check(t.Context()), hint)
	require.ErrorContains(t, b.fails(t, call("w", "k", `{"title":"a"}`)), hint)
	b.invoke(t, call("plain", "k", `{"title":"a"}`))
	b.exec(t, `ALTER TABLE away RENAME TO tool_lookalike`)
	require.False(t, b.invoke(t, call("w", "k", `{"title":"a"}`)).Replayed, "it was not stored as an answer")

	b.exec(t, `ALTER TABLE tool_lookalike DROP COLUMN earlier_at`)
	require.ErrorContains(t, b.tools.Check(t.Context()), hint)
}

func TestGuardWithoutPrivileges(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, nil, tool.LookalikeGuard{Action: tool.Report})
	role := fmt.Sprint("nobody_", time.Now().UnixNano())
	b.exec(t, `CREATE ROLE `+role+`; GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup TO `+role)
	t.Cleanup(func() {
		_, _ = b.pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY `+role+`; DROP ROLE `+role)
	})
	config := b.pool.Config()
	config.ConnConfig.RuntimeParams["role"] = role
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools := tool.NewRegistry(d, nil)
	require.NoError(t, tools.Add(tool.Tool[ticketIn, ticket]{Name: "w", Class: tool.Write, Run: b.createTicket, Lookalikes: tool.LookalikeGuard{Action: tool.Report}}))
	require.ErrorContains(t, tools.Check(t.Context()), "grant SELECT, INSERT, UPDATE and DELETE")
}
