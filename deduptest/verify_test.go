package deduptest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestWhatCannotBeTriedIsFatal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	right := deduptest.Tool{Name: "right", Call: do, Count: countTickets}
	with := func(change func(*deduptest.Tool)) deduptest.Tool {
		tool := right
		change(&tool)
		return tool
	}
	answering := func(answer any, err error) deduptest.Tool {
		return with(func(tool *deduptest.Tool) {
			tool.Call = func(context.Context, deduptest.Try) (any, error) { return answer, err }
		})
	}
	for name, test := range map[string]struct {
		url  string
		tool deduptest.Tool
		opts *deduptest.Options
		says string
	}{
		"NoName":          {b.url, with(func(tool *deduptest.Tool) { tool.Name = "" }), nil, "Tool.Name"},
		"NoCall":          {b.url, with(func(tool *deduptest.Tool) { tool.Call = nil }), nil, "Tool.Call is nil"},
		"NoCount":         {b.url, with(func(tool *deduptest.Tool) { tool.Count = nil }), nil, "Tool.Count is nil"},
		"BadURL":          {"host=x", right, nil, "postgres://"},
		"BadOptions":      {b.url, with(func(tool *deduptest.Tool) { tool.Options = &dedup.Options{MaxResultBytes: 1} }), nil, "Tool.Options"},
		"NoTable":         {pgtest.NewEmpty(t).URL, right, nil, "tool_dedup"},
		"UnknownScenario": {b.url, right, &deduptest.Options{Without: []deduptest.Scenario{"murphy"}}, `no scenario "murphy"`},
		"NoPatience":      {b.url, right, &deduptest.Options{Patience: -1}, "Options.Patience"},
		"FailingCall":     {b.url, answering(nil, errors.New("no paper")), nil, "no paper"},
		"SilentCall":      {b.url, answering(1, nil), nil, "sent nothing to the database"},
		"NoJSON":          {b.url, answering(make(chan int), nil), nil, "no JSON"},
		"WholeResult":     {b.url, answering(dedup.Result[int]{}, nil), nil, "must return its Value"},
		"Panic": {b.url, with(func(tool *deduptest.Tool) {
			tool.Call = func(context.Context, deduptest.Try) (any, error) { panic("out of ink") }
		}), nil, "panic: out of ink"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := &recorder{t: t}
			require.Nil(t, deduptest.Verify(tb, test.url, test.tool, test.opts))
			require.Contains(t, tb.fatal, test.says)
			require.Empty(t, tb.errors)
		})
	}
}

// selective is a test whose -run leaves out all subtests.
type selective struct {
	recorder
	names []string
}

func (s *selective) Run(name string, _ func(*testing.T)) bool {
	s.names = append(s.names, name)
	return true
}

// TestScenariosAreSubtests: a scenario that go test leaves out is not run.
func TestScenariosAreSubtests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tb := &selective{recorder: recorder{t: t}}
	report := deduptest.Verify(tb, b.url, deduptest.Tool{Name: "right", Call: do, Count: countTickets}, nil)
	require.Empty(t, tb.fatal)
	require.Len(t, report.Scenarios, len(deduptest.Scenarios()))
	for i, o := range report.Scenarios {
		require.Equal(t, string(o.Scenario), tb.names[i])
		require.True(t, o.Off)
		require.Zero(t, o.Cases)
	}
}

// TestFaultsThatDoNotComeAboutFail has a tool that sends less than in the rehearsal, so that the
// last faults meet nothing.
func TestFaultsThatDoNotComeAboutFail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const rehearsal = 2 // the first call of the stage, and the recorded one
	var calls atomic.Int32
	tool := deduptest.Tool{Name: "quieter", Count: countTickets, Call: func(ctx context.Context, try deduptest.Try) (any, error) {
		answer, err := do(ctx, try)
		if calls.Add(1) <= rehearsal && err == nil {
			_, err = try.Pool.Exec(ctx, `SELECT 'an afterthought'`)
		}
		return answer, err
	}}
	tb := &recorder{t: t}
	report := deduptest.Verify(tb, b.url, tool, &deduptest.Options{Without: []deduptest.Scenario{deduptest.ProcessKilled}})
	want := []deduptest.Scenario{deduptest.NotExecuted, deduptest.AnswerLost, deduptest.Cancelled}
	require.Equal(t, want, report.Failed())
	for _, scenario := range want {
		require.Contains(t, failureOf(report, scenario), "statement 4 of 4")
		require.Contains(t, failureOf(report, scenario), "nothing was tested")
	}
}

func TestOnlyChildrenCanBeKilled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tb := &recorder{t: t}
	stranger := deduptest.Tool{Name: "a stranger to TestMain", Call: do, Count: countTickets}
	report := deduptest.Verify(tb, b.url, stranger, &deduptest.Options{Without: allBut(deduptest.ProcessKilled)})
	require.Equal(t, []deduptest.Scenario{deduptest.ProcessKilled}, report.Failed())
	require.Contains(t, tb.errors[0], "nothing was tested")
	require.Contains(t, tb.errors[0], `deduptest.Child was not given the tool "a stranger to TestMain"`)
}

func TestScenariosAreTurnedOffLoudly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tb := &recorder{t: t}
	report := deduptest.Verify(tb, b.url, rightTools()[0], &deduptest.Options{Without: deduptest.Scenarios()})
	require.Empty(t, report.Failed())
	require.Len(t, tb.logs, len(deduptest.Scenarios()))
	for i, scenario := range deduptest.Scenarios() {
		require.Equal(t, deduptest.ScenarioReport{Scenario: scenario, Off: true}, report.Scenarios[i])
		require.Contains(t, tb.logs[i], string(scenario)+": not run")
	}
}

func TestEffectsOfOthersAreNoticed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := rightTools()[0]
	var counts atomic.Int32
	tool.Count = func(ctx context.Context, db *pgxpool.Pool) (int, error) {
		n, err := countTickets(ctx, db)
		return n + int(counts.Add(1)), err
	}
	tb := &recorder{t: t}
	deduptest.Verify(tb, b.url, tool, &deduptest.Options{Without: allBut(deduptest.NotExecuted)})
	require.Contains(t, strings.Join(tb.errors, "\n"), "something else writes to the database")
}

func TestLongCallsThatDoNotReturnAreStuck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := rightTools()[0]
	release := make(chan struct{})
	tool.Call = func(ctx context.Context, try deduptest.Try) (any, error) {
		answer, err := do(ctx, try)
		if errors.Is(err, dedup.ErrKeyReused) {
			<-release
		}
		return answer, err
	}
	tb := &recorder{t: t}
	report := deduptest.Verify(tb, b.url, tool, &deduptest.Options{Patience: 10 * time.Second, Without: allBut(deduptest.OtherArguments)})
	close(release)
	require.Contains(t, failureOf(report, deduptest.OtherArguments), "does not return after its context has ended")
}

func TestVerifyInAChildIsFatal(t *testing.T) {
	t.Setenv("DEDUPTEST_CHILD", "{}")
	tb := &recorder{t: t}
	require.Nil(t, deduptest.Verify(tb, "postgres://localhost/x", rightTools()[0], nil))
	require.Contains(t, tb.fatal, "call deduptest.Child in TestMain")
}
