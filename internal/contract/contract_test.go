package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// contractCase is one promise, tried in every profile.
type contractCase struct {
	name string
	run  func(t *testing.T, p profile)
	// locksOnly: a claim lets no rival past, see RivalPastTheLock.
	locksOnly bool
	// goOnly: needs an effect that is a function, and its transaction.
	goOnly bool
	// notOnCitus is the reason why the case does not run on Citus. docs/sharded.md has it too.
	notOnCitus string
}

// contract is what every order, isolation level and exec mode must keep, directly and through a
// pooler. What calls answer that come one after the other is the subject of TestHistory.
func contract() []contractCase {
	cases := []contractCase{
		{name: "FirstThenReplay", run: caseFirstThenReplay},
		{name: "KeyReused", run: caseKeyReused},
		{name: "ForgottenIsTakenOver", run: caseTakeover},
		{name: "RivalPastTheLock", run: caseRival},
		{name: "OwnUniqueIndexFirst", run: caseOwnUnique, locksOnly: true},
		{name: "OwnLookFirst", run: caseOwnLook, locksOnly: true},
		{name: "DeferredConstraintAtCommit", run: caseDeferred},
		{name: "TransientInTheEffect", run: caseTransient},
		{name: "TransientForEver", run: caseTransientForEver},
		{name: "MaxWaitNone", run: caseMaxWaitNone},
		{name: "MaxWaitBounded", run: caseMaxWaitBounded},
		{name: "TableLocked", run: caseTableLocked, locksOnly: true, goOnly: true, notOnCitus: "LOCK TABLE there locks more"},
		{name: "TableStaysLocked", run: caseTableStaysLocked, locksOnly: true, goOnly: true, notOnCitus: "LOCK TABLE there locks more"},
		{name: "TwinPastTheLock", run: caseTwinPastTheLock, locksOnly: true, goOnly: true},
		{name: "WaitingTwinCancelled", run: caseWaitCancelled},
		{name: "LeaderCancelled", run: caseLeaderCancelled},
		{name: "LeaderPanics", run: caseLeaderPanics, goOnly: true},
		{name: "SlowEffectIsNotBornExpired", run: caseBornExpired},
		{name: "NotKept", run: caseNotKept},
		{name: "RefusalNotKept", run: caseRefusalNotKept},
		{name: "FollowersOfNotKept", run: caseFollowersOfNotKept},
	}
	for _, n := range []int{2, 50} {
		cases = append(cases,
			contractCase{name: fmt.Sprintf("Twins%dInOneProcess", n), run: func(t *testing.T, p profile) { caseTwins(t, p, n) }},
			contractCase{name: fmt.Sprintf("Twins%dInTwoProcesses", n), run: func(t *testing.T, p profile) { caseTwinsAcross(t, p, n) }})
	}
	cases = append(cases, contractConstraints()...)
	for _, c := range contractDoTx() {
		c.goOnly = true
		cases = append(cases, c)
	}
	return cases
}

func runContract(t *testing.T, profiles ...profile) {
	t.Helper()
	for _, p := range profiles {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			for _, c := range contract() {
				if c.locksOnly && !p.locks() || c.goOnly && !p.way.functions() {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					if p.engine == onCitus && c.notOnCitus != "" {
						t.Skip(c.notOnCitus)
					}
					c.run(t, p)
				})
			}
		})
	}
}

func TestContract(t *testing.T) {
	t.Parallel()

	runContract(t,
		profile{order: lockFirst, isolation: pgx.ReadCommitted},
		profile{order: claimFirst, isolation: pgx.ReadCommitted},
	)
}

// TestLongContract is TestContract with each other isolation level, each other exec mode, and
// effects that write through a *sql.Tx. The profiles are few, because each repeats every case.
func TestLongContract(t *testing.T) {
	t.Parallel()

	runContract(t,
		profile{order: lockFirst, isolation: pgx.RepeatableRead, mode: pgx.QueryExecModeCacheDescribe},
		profile{order: lockFirst, isolation: pgx.Serializable, mode: pgx.QueryExecModeDescribeExec},
		profile{order: lockFirst, isolation: pgx.ReadCommitted, mode: pgx.QueryExecModeSimpleProtocol},
		profile{order: claimFirst, isolation: pgx.RepeatableRead, mode: pgx.QueryExecModeExec},
		profile{order: claimFirst, isolation: pgx.Serializable},
		profile{order: lockFirst, isolation: pgx.ReadCommitted, way: viaSQL},
	)
}

func caseFirstThenReplay(t *testing.T, p profile) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k"}

	first, err := f.do(ctx, f.d, call("k"), e.run)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.False(t, first.Recovered)
	require.Equal(t, ticket{ID: 1, Title: "k"}, first.Value)
	require.Equal(t, 1, first.Attempts)
	require.Zero(t, first.Waited)
	require.Equal(t, 24*time.Hour, first.ExpiresAt.Sub(first.CreatedAt).Round(time.Second))

	for _, d := range []*dedup.Deduper{f.d, f.peer(t)} {
		again, err := f.do(ctx, d, call("k"), e.run)
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.False(t, again.Recovered)
		require.Equal(t, first.Value, again.Value)
		require.True(t, first.CreatedAt.Equal(again.CreatedAt))
		require.True(t, first.ExpiresAt.Equal(again.ExpiresAt))
	}
	for _, other := range []dedup.Call{
		{Scope: "umbrella", Tool: "create_ticket", Key: "k"}, {Scope: "acme", Tool: "close_ticket", Key: "k"}, {Scope: "acme", Tool: "create_ticket", Key: "K"},
	} {
		stranger, err := f.do(ctx, f.d, other, e.run)
		require.NoError(t, err)
		require.False(t, stranger.Replayed, "%+v", other)
	}
	e.requireRuns(t, 4)
	require.Equal(t, 4, f.effects(t, "k"))
	require.Equal(t, 4, f.records(t))
}

func caseTwins(t *testing.T, p profile, n int) {
	ctx, f := p.setup(t, nil)
	e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		return f.events.untilWaiting(ctx, n-1, 0)
	}}

	var pending []<-chan answered
	for i := range n {
		c := call("k")
		c.LookFirst = i%2 == 1 // which decides nothing
		pending = append(pending, f.start(ctx, f.d, c, e.run))
	}
	var answers []dedup.Result[ticket]
	for _, one := range pending {
		answers = append(answers, receive(t, ctx, one).require(t))
	}

	requireTwins(t, answers)
	e.requireRuns(t, 1)
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}

func caseTwinsAcross(t *testing.T, p profile, n int) {
	ctx, f := p.setup(t, nil)
	peer := f.peer(t)
	e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
		return f.events.untilWaiting(ctx, n-2, 1)
	}}

	var pending []<-chan answered
	for i := range n {
		pending = append(pending, f.start(ctx, []*dedup.Deduper{f.d, peer}[i%2], call("k"), e.run))
	}
	var answers []dedup.Result[ticket]
	for _, one := range pending {
		answers = append(answers, receive(t, ctx, one).require(t))
	}

	requireTwins(t, answers)
	if p.fresh() { // an older snapshot may cost a run that is undone
		e.requireRuns(t, 1)
	}
	require.Equal(t, 1, f.effects(t, "k"))
	require.Equal(t, 1, f.records(t))
}
