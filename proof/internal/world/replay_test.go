package world_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

func TestReplaySmall(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)

	got := newReplayer(t, rec).all(t)
	require.Equal(t, tally{
		sessions: 6, states: 6,
		writes: 20, writesEqual: 20,
		reads: 7, readsEqual: 7,
		noops: 2, noopsEqual: 2, // and one injected
	}, got)
}

func TestReplayTaubench(t *testing.T) {
	t.Parallel()
	rec, err := recording.Open(largeDir(t))
	require.NoError(t, err)

	got := newReplayer(t, rec).all(t)
	require.Equal(t, tally{
		sessions: 196, states: 196,
		writes: 269, writesEqual: 269,
		reads: 916, readsEqual: 916,
		noops: 198, noopsEqual: 198, // and 53 injected
	}, got)
}

// largeDir is the folder of the large recording.
func largeDir(t testing.TB) string {
	t.Helper()
	dir := recording.LargeDir()
	if dir == "" {
		t.Skip("no large recording: TAUBENCH_DIR is not set and ../shared/taubench is not there; the small recording was replayed")
	}
	return dir
}

// tally counts what a replay compared; injected calls are in none.
type tally struct {
	sessions, states    int
	writes, writesEqual int
	reads, readsEqual   int
	noops, noopsEqual   int
}

type replayer struct {
	rec   *recording.Recording
	pool  *pgxpool.Pool
	tools map[string][]kit.Tool
}

func newReplayer(t *testing.T, rec *recording.Recording) *replayer {
	t.Helper()
	pool := pgtest.NewEmpty(t).Pool(t)
	require.NoError(t, world.Create(t.Context(), pool, rec))
	return &replayer{rec: rec, pool: pool, tools: world.Tools()}
}

func (r *replayer) all(t *testing.T) tally {
	t.Helper()
	var sum tally
	for _, session := range r.rec.Sessions {
		r.session(t, session, &sum)
	}
	t.Logf("%+v", sum)
	return sum
}

func (r *replayer) session(t *testing.T, session recording.Session, sum *tally) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, world.Reset(ctx, r.pool, session.Domain))

	effects := map[string]int{}
	for _, call := range session.Calls {
		if call.InjectedByHarness {
			continue
		}
		ref := fmt.Sprintf("%s/%d/%s", session.ID, call.Turn, call.ToolCallID)
		if call.Class == recording.Write && !call.IsError {
			effects[ref] = 1
		}
		got := r.call(t, kit.WithCallRef(ctx, ref), call)
		sum.add(t, call, got)
	}

	state, err := world.Changed(ctx, r.pool, session.Domain)
	require.NoError(t, err)
	sum.sessions++
	if diff := world.DiffState(session.Changed, state); len(diff) == 0 {
		sum.states++
	} else {
		t.Errorf("%s: %v", session.ID, diff)
	}
	counts, err := world.Effects(ctx, r.pool)
	require.NoError(t, err)
	require.Equal(t, effects, counts, session.ID)
}

// call runs a call in a transaction of its own, which a refusal rolls back.
func (r *replayer) call(t *testing.T, ctx context.Context, call recording.Call) string {
	t.Helper()
	var result json.RawMessage
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) (err error) {
		result, err = find(r.tools[call.Domain], call.Tool).Run(ctx, tx, call.Arguments)
		return err
	})
	var refusal *kit.Refusal
	if errors.As(err, &refusal) {
		return refusal.Answer()
	}
	require.NoError(t, err, "%s, seq %d", call.Session, call.Seq)
	return kit.Text(result)
}

// find returns the tool of a name, which must be there.
func find(tools []kit.Tool, name string) kit.Tool {
	return tools[slices.IndexFunc(tools, func(t kit.Tool) bool { return t.Name == name })]
}

func (c *tally) add(t *testing.T, call recording.Call, got string) {
	t.Helper()
	equal := 0
	if recording.Equal(call.Result, got) {
		equal = 1
	} else {
		t.Errorf("%s, seq %d, %s:\n got %s\nwant %s", call.Session, call.Seq, call.Tool, got, call.Result)
	}
	switch call.Class {
	case recording.Write:
		c.writes, c.writesEqual = c.writes+1, c.writesEqual+equal
	case recording.Read:
		c.reads, c.readsEqual = c.reads+1, c.readsEqual+equal
	case recording.Noop:
		c.noops, c.noopsEqual = c.noops+1, c.noopsEqual+equal
	}
}
