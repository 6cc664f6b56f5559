package deduptest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
)

// TestEachScenarioFindsAMistake: a scenario that finds no mistake would be useless.
func TestEachScenarioFindsAMistake(t *testing.T) {
	t.Parallel()
	found := map[deduptest.Scenario]bool{}
	for _, wrong := range wrongs() {
		found[wrong.finds[0]] = true
	}
	for _, scenario := range deduptest.Scenarios() {
		require.True(t, found[scenario], scenario)
	}
}

func wrongTools() []deduptest.Tool {
	var tools []deduptest.Tool
	for _, wrong := range wrongs() {
		tools = append(tools, deduptest.Tool{Name: wrong.name, Call: wrong.call, Count: countTickets})
	}
	return tools
}

// TestWrongToolsAreFound runs every wrong tool in the scenario for its mistake.
func TestWrongToolsAreFound(t *testing.T) {
	t.Parallel()
	for i, wrong := range wrongs() {
		wrong.finds, wrong.passes = wrong.finds[:1], nil
		testWrongTool(t, wrongTools()[i], wrong)
	}
}

// TestLongWrongToolsAreFound runs every wrong tool in all the scenarios with a known result.
func TestLongWrongToolsAreFound(t *testing.T) {
	t.Parallel()
	for i, wrong := range wrongs() {
		testWrongTool(t, wrongTools()[i], wrong)
	}
}

func testWrongTool(t *testing.T, tool deduptest.Tool, wrong wrongTool) {
	t.Helper()
	t.Run(wrong.name, func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		tb := &recorder{t: t}
		report := deduptest.Verify(tb, b.url, tool, &deduptest.Options{
			Without: allBut(append(wrong.passes, wrong.finds...)...),
		})
		require.Empty(t, tb.fatal)
		failed := report.Failed()
		require.ElementsMatch(t, wrong.finds, failed, strings.Join(tb.errors, "\n"))
		require.Len(t, tb.errors, len(failed))
		require.Contains(t, failureOf(report, wrong.finds[0]), wrong.says)
		for k, scenario := range failed {
			require.Contains(t, tb.errors[k], "deduptest: "+wrong.name+": "+string(scenario)+": failed")
		}
	})
}

func failureOf(report *deduptest.Report, scenario deduptest.Scenario) string {
	i := slices.IndexFunc(report.Scenarios, func(o deduptest.ScenarioReport) bool { return o.Scenario == scenario })
	return strings.Join(report.Scenarios[i].Failures, "\n")
}

// TestWriteBesideTheEffect has tools with a second write, which Count does not read: beside the
// call, or through the pool. Only Tables finds it.
func TestWriteBesideTheEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beside bool
		finds  []deduptest.Scenario
	}{
		"InTheEffect":   {},
		"BesideTheCall": {beside: true, finds: []deduptest.Scenario{deduptest.Repeated, deduptest.TwoAtOnce}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			conn, err := pgx.Connect(t.Context(), b.url)
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), `CREATE TABLE mails (ticket text)`)
			require.NoError(t, err)
			require.NoError(t, conn.Close(t.Context()))
			mail := func(ctx context.Context, on interface {
				Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
			}) error {
				_, err := on.Exec(ctx, `INSERT INTO mails VALUES ('x'), ('y')`)
				return err
			}
			mailer := deduptest.Tool{Name: "mailer", Count: countTickets, Call: func(ctx context.Context, try deduptest.Try) (any, error) {
				result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
					made, err := insertTicket(ctx, tx, try)
					if err == nil && !c.beside {
						err = mail(ctx, tx)
					}
					return made, err
				})
				if err == nil && c.beside {
					err = mail(ctx, try.Pool)
				}
				return result.Value, err
			}}
			for _, tables := range [][]string{nil, {"mails"}} {
				mailer.Tables = tables
				report := deduptest.Verify(&recorder{t: t}, b.url, mailer, &deduptest.Options{Without: allBut(deduptest.Repeated, deduptest.TwoAtOnce)})
				require.NotNil(t, report)
				if tables == nil || c.finds == nil {
					require.Empty(t, report.Failed())
					continue
				}
				require.ElementsMatch(t, c.finds, report.Failed())
				require.Contains(t, failureOf(report, c.finds[0]), "2 an effect: something writes there that is no part of the effect")
			}
			mailer.Tables = []string{"mail"}
			tb := &recorder{t: t}
			require.Nil(t, deduptest.Verify(tb, b.url, mailer, nil))
			require.Contains(t, tb.fatal, `counting the rows of "mail"`)
		})
	}
}

// TestLongLeakedConnections has a tool that does not end its transaction after an error.
func TestLongLeakedConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var mu sync.Mutex
	var kept []*pgxpool.Conn
	leaky := deduptest.Tool{Name: "leaky", Count: countTickets, Call: func(ctx context.Context, try deduptest.Try) (any, error) {
		result, err := do(ctx, try)
		if err != nil {
			conn, acquired := try.Pool.Acquire(t.Context())
			if acquired == nil {
				mu.Lock()
				kept = append(kept, conn)
				mu.Unlock()
			}
		}
		return result, err
	}}
	tb := &recorder{t: t}
	report := deduptest.Verify(tb, b.url, leaky, &deduptest.Options{
		Patience: 10 * time.Second, Without: allBut(deduptest.Repeated, deduptest.OtherArguments),
	})
	for _, conn := range kept {
		conn.Release()
	}
	require.Equal(t, []deduptest.Scenario{deduptest.OtherArguments}, report.Failed())
	require.Contains(t, failureOf(report, deduptest.OtherArguments), "1 connections were never given back")
}
