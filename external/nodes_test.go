package external_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// engine is the kind of server.
type engine int

const (
	postgres engine = iota
	played          // PostgreSQL, treated as Citus
	cluster         // a Citus cluster
)

// TestPostgres runs the cases on PostgreSQL.
func TestPostgres(t *testing.T) {
	t.Parallel()
	throughNodes(t, postgres)
}

// TestPlayedCitus runs the statements for Citus on PostgreSQL.
func TestPlayedCitus(t *testing.T) {
	t.Parallel()
	throughNodes(t, played)
}

// TestCitus runs the cases on a Citus cluster, through all of its nodes.
func TestCitus(t *testing.T) {
	t.Parallel()
	throughNodes(t, cluster)
}

func throughNodes(t *testing.T, e engine) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, engine){
		"Twins": nodesTwins, "Killed": nodesKilled, "LostCommits": nodesLostCommits, "LostNodes": nodesLostNodes, "Resolved": nodesResolved,
		"Accepted": nodesAccepted, "InFlight": nodesInFlight, "Forgotten": nodesForgotten, "Refused": nodesRefused,
		"FenceGrows": nodesFenceGrows, "SimpleProtocol": nodesSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// nodes are the URLs of an engine's nodes, the coordinator first. A PostgreSQL is listed three
// times.
type nodes []string

func onNodes(t *testing.T, e engine) (all nodes) {
	t.Helper()
	if e == cluster {
		for _, node := range pgtest.NewCitus(t).Nodes {
			all = append(all, node.URL)
		}
		return all
	}
	db := pgtest.New(t)
	if e == played {
		playCitus(process(t, db.Pool(t)))
	}
	return nodes{db.URL, db.URL, db.URL}
}

// playCitus makes a process treat its database as Citus, where the COMMIT of a claim is another
// trip.
func playCitus(f *fixture) {
	f.t.Helper()
	f.exec(`INSERT INTO pg_catalog.pg_extension VALUES (1, 'citus', 10, 11, false, '', NULL, NULL)`)
}

// process returns a process that is connected to a node.
func (n nodes) process(t *testing.T, node int) *fixture {
	t.Helper()
	return process(t, connect(t, n[node]))
}

func connect(t *testing.T, url string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 4
	for _, set := range configure {
		set(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// makeLedger creates the application's table on all nodes: a COMMIT with it has two phases there.
func (n nodes) makeLedger(t *testing.T, e engine) {
	t.Helper()
	f := n.process(t, 0)
	f.makeLedger()
	if e == cluster {
		f.exec(`SELECT create_reference_table('ledger')`)
	}
}

// nodesTwins calls through all nodes at once: one call acts, and all return its answer.
func nodesTwins(t *testing.T, e engine) {
	on, p := onNodes(t, e), newProvider()
	on.makeLedger(t, e)
	var all []*external.Handle[in, out]
	var f *fixture
	for n := range on {
		f = on.process(t, n)
		all = append(all, add(f, ledger(external.Tool[in, out]{Perform: p.perform})))
	}
	for key := range 4 {
		var calls sync.WaitGroup
		var acted atomic.Int32
		answers := make([]dedup.Result[out], 18)
		errs := make([]error, len(answers))
		for i := range answers {
			calls.Go(func() {
				answers[i], errs[i] = all[i%len(all)].Do(t.Context(), call(fmt.Sprint(key)), in{key})
				if !answers[i].Replayed {
					acted.Add(1)
				}
			})
		}
		calls.Wait()
		require.NoError(t, errors.Join(errs...))
		require.EqualValues(t, 1, acted.Load())
		for _, a := range answers {
			require.Equal(t, answers[0].Value, a.Value)
		}
		for _, h := range all {
			again, err := h.Do(t.Context(), call(fmt.Sprint(key)), in{key})
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, answers[0].Value, again.Value)
			_, err = h.Do(t.Context(), call(fmt.Sprint(key)), in{key + 1})
			require.ErrorIs(t, err, dedup.ErrKeyReused)
		}
		require.Equal(t, []string{"finish " + answers[0].Value.ID}, f.ledger(key))
	}
	require.Equal(t, 4, p.effects())
}

// nodesKilled kills a process at a step: its connections are closed, and it does nothing more.
// Other processes find out the outcome: on Citus by Recover through the two other nodes, otherwise
// by a call.
func nodesKilled(t *testing.T, e engine) {
	steps := map[external.EventKind]map[string]fate{external.EventSending: beforeSend, external.EventAnswered: afterSend, external.EventEnding: afterSend}
	if e == postgres {
		steps[external.EventClaimed], steps[external.EventRecording], steps[external.EventRecorded] = beforeSend, afterSend, allOnce
	}
	for step, fates := range steps {
		for kind, want := range fates {
			t.Run(string(step)+"/"+kind, func(t *testing.T) {
				t.Parallel()
				on, p := onNodes(t, e), newProvider()
				dead := stop(t, on[0], performing(kind, p), step)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = dead.tools.Close(ended)
				_, err := connect(t, on[0]).Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stopped'`)
				require.NoError(t, err)
				f, other := on.process(t, 1), on.process(t, 2)
				dead.outlive(f)
				h := add(f, performing(kind, p))
				if e != postgres {
					add(other, performing(kind, p))
					recovered(t, f, other)
				}
				_, err = h.Do(f.ctx, call("k"), in{1})
				if want.state == external.StateDone {
					require.NoError(t, err)
				} else {
					require.ErrorAs(t, err, new(*external.ParkedError))
				}
				expect(t, f, p, want)
				close(dead.goOn) // let it end; it can neither send nor record
				dead.pool.Close()
				dead.calls.Wait()
			})
		}
	}
}

// recovered runs Recover in processes until the operation has an answer or is parked.
func recovered(t *testing.T, all ...*fixture) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var recovering sync.WaitGroup
	for _, f := range all {
		f.steps.stopAt(func(data external.Event) {
			if data.Kind == external.EventRecorded || data.Kind == external.EventParked {
				stop()
			}
		})
		recovering.Go(func() { _ = f.tools.Recover(ctx) })
	}
	recovering.Wait()
	require.ErrorIs(t, ctx.Err(), context.Canceled, "nothing was recovered")
}

// nodesResolved parks through one node and resolves through another one.
func nodesResolved(t *testing.T, e engine) {
	on := onNodes(t, e)
	f := on.process(t, 1)
	for name, c := range map[string]struct {
		verdict external.Verdict
		result  string // empty for a refusal
	}{
		"happened": {external.Happened(out{"ch_9"}, "seen"), "ch_9"}, "never": {external.Never("not seen"), "ch_1"}, "refuse": {external.Refuse("not seen"), ""},
	} {
		s := &script{attempts: []answer{fails(errLost), is("ch_1")}}
		tool := s.tool(external.Tool[in, out]{Name: name})
		_, err := add(on.process(t, 0), tool).Do(t.Context(), call("k"), in{1})
		require.ErrorAs(t, err, new(*external.ParkedError))
		h, listed := add(f, tool), f.parked(t.Context())
		require.Len(t, listed, 1)
		require.NoError(t, f.tools.Resolve(t.Context(), listed[0], c.verdict.By("ada")))
		result, err := h.Do(t.Context(), call("k"), in{1})
		require.Equal(t, out{c.result}, result.Value)
		require.Equal(t, c.result == "", errors.Is(err, dedup.ErrRefused))
		var said string
		require.NoError(t, f.pool.QueryRow(t.Context(), `SELECT concat_ws(' ', actor, action) FROM tool_dedup_audit WHERE tool = $1`, name).Scan(&said))
		require.Equal(t, "ada "+name, said)
	}
}

// nodesAccepted accepts operations through all nodes and rolls some of them back. Two Recover loops
// act on each of the others once.
func nodesAccepted(t *testing.T, e engine) {
	const each = 10
	on, p := onNodes(t, e), newProvider()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var fixtures []*fixture
	var mu sync.Mutex
	recorded := 0
	for n := range on {
		f := on.process(t, n)
		tool := external.Tool[in, out]{Perform: p.perform}
		h := add(f, tool)
		f.steps.stopAt(func(data external.Event) {
			if data.Kind == external.EventRecorded {
				mu.Lock()
				defer mu.Unlock()
				if recorded++; recorded == each*len(on) {
					stop()
				}
			}
		})
		for i := range each {
			for _, want := range []error{nil, errLost} {
				require.ErrorIs(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
					c := call(fmt.Sprint(n, "-", i, want))
					c.Scope = fmt.Sprint("tenant", i)
					op, err := h.Accept(ctx, tx, c, in{n*each + i})
					require.NoError(t, err)
					require.Equal(t, external.StatePending, op.State)
					return want
				}), want)
			}
		}
		fixtures = append(fixtures, f)
	}
	var recovering sync.WaitGroup
	for _, f := range fixtures[1:] {
		recovering.Go(func() { _ = f.tools.Recover(ctx) })
	}
	recovering.Wait()
	require.Equal(t, each*len(on), recorded)
	require.Equal(t, each*len(on), p.effects())
}

// nodesInFlight accepts an operation that another node has accepted and not committed. The wait for
// it is limited on the node where it happens, and the caller's transaction stays usable.
func nodesInFlight(t *testing.T, e engine) {
	on := onNodes(t, e)
	tool := external.Tool[in, out]{Perform: answering("ch_1")}
	holds, f := on.process(t, 1), on.process(t, 2)
	held := holds.begin()
	_, err := add(holds, tool).Accept(t.Context(), held, call("k"), in{1})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := add(f, tool)
	_, err = h.Do(ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	tx := f.begin()
	_, err = tx.Exec(ctx, `SET LOCAL lock_timeout = '7s'`)
	require.NoError(t, err)
	for key, want := range map[string]error{"k": dedup.ErrInFlight, "other": nil} {
		_, err = h.Accept(ctx, tx, call(key), in{1})
		require.ErrorIs(t, err, want)
		var limit string
		require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&limit))
		require.Equal(t, "7s", limit)
	}
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, external.StatePending, f.lookup("other").State)
	require.NoError(t, held.Commit(ctx))
	result, err := h.Do(ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
}

// nodesForgotten deletes old operations of all scopes, and nothing else.
func nodesForgotten(t *testing.T, e engine) {
	const scopes = 20
	f := onNodes(t, e).process(t, 1)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	for i := range scopes {
		c := call("k")
		c.Scope = fmt.Sprint("tenant", i)
		_, err := h.Do(f.ctx, c, in{1})
		require.NoError(t, err)
	}
	f.exec(`UPDATE tool_effect SET forget_at = '2020-01-01' WHERE scope <> 'tenant7'`)
	ctx, stop := context.WithTimeout(f.ctx, time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- f.tools.Recover(ctx) }()
	for left := 0; left != 1; {
		require.NoError(t, f.pool.QueryRow(ctx, `SELECT count(*) FROM tool_effect`).Scan(&left))
	}
	stop()
	require.NoError(t, <-done)
	status, err := f.tools.Status(f.ctx, "tenant7", "charge", "k")
	require.NoError(t, err)
	op := status.Operation
	require.Equal(t, external.StateDone, op.State)

	// A key whose record is gone may be used anew, a day before the operation is deleted. A fence
	// from before changes nothing.
	forget := func() {
		f.exec(`DELETE FROM tool_dedup`)
		f.exec(`UPDATE tool_effect SET forget_at = $1`, op.Now.Add(23*time.Hour))
	}
	forget()
	c := call("k")
	c.Scope = "tenant7"
	result, err := h.Do(f.ctx, c, in{2})
	require.NoError(t, err)
	require.False(t, result.Replayed)
	status, err = f.tools.Status(f.ctx, "tenant7", "charge", "k")
	require.NoError(t, err)
	require.Greater(t, status.Operation.Fence, op.Fence)
	forget()
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		op, err := h.Accept(f.ctx, tx, c, in{3})
		require.Equal(t, external.StatePending, op.State)
		return err
	}))
}

// nodesRefused records a refusal together with the writes of Refused.
func nodesRefused(t *testing.T, e engine) {
	on := onNodes(t, e)
	on.makeLedger(t, e)
	f, other := on.process(t, 0), on.process(t, 2)
	tool := ledger(external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		return out{}, dedup.Final(errors.New("declined"))
	}})
	h := add(f, tool)
	for _, h := range []*external.Handle[in, out]{h, add(other, tool)} {
		_, err := h.Do(f.ctx, call("k"), in{1})
		require.ErrorIs(t, err, dedup.ErrRefused)
	}
	require.Equal(t, []string{"refused declined"}, other.ledger(1))
}

// nodesFenceGrows makes attempts through one node after the other. Their clocks differ, and the
// fence grows with each attempt.
func nodesFenceGrows(t *testing.T, e engine) {
	on := onNodes(t, e)
	var fences []int64
	tool := external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		if len(fences) < 4 {
			return out{}, external.NotDone(errors.New("429"))
		}
		return out{"ch_1"}, nil
	}}
	for attempt, node := range []int{2, 0, 1, 0} {
		f := on.process(t, node)
		h := add(f, tool)
		f.steps.stopAt(func(data external.Event) {
			if data.Kind == external.EventSending {
				fences = append(fences, data.Fence)
			}
		})
		if attempt == 0 {
			accept(f, h, "k", 1)
		}
		f.untilDue(f.lookup("k"))
		f.advance("k")
	}
	require.Len(t, fences, 4)
	require.IsIncreasing(t, fences)
}

// nodesSimpleProtocol is refused before anything is sent: Citus would pass on the claim together
// with its limit.
func nodesSimpleProtocol(t *testing.T, e engine) {
	if e == postgres {
		return // TestSessions uses it there
	}
	on, p := onNodes(t, e), newProvider()
	f := process(t, connect(t, on[0], func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol }))
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.NoError(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(f.ctx, tx, call("k"), in{1})
		require.ErrorIs(t, err, dedup.ErrInvalid)
		return nil
	}))
	_, err = f.tools.Status(f.ctx, "acme", "charge", "k")
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.Zero(t, p.effects())
	require.Equal(t, external.StateNone, process(t, connect(t, on[0])).lookup("k").State)
}
