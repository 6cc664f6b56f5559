package external_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// nodes are the URLs of a database: of a Citus cluster's nodes, the coordinator first, or of a
// PostgreSQL that says it is Citus, three times.
type nodes []string

// onNodes runs a test on a Citus cluster, or on what plays one.
func onNodes(t *testing.T, cluster bool) nodes {
	t.Helper()
	if !cluster {
		db := pgtest.New(t)
		_, err := db.Pool(t).Exec(t.Context(), `INSERT INTO pg_catalog.pg_extension VALUES (1, 'citus', 10, 11, false, '', NULL, NULL)`)
		require.NoError(t, err)
		return nodes{db.URL, db.URL, db.URL}
	}
	var all nodes
	for _, node := range pgtest.NewCitus(t).Nodes {
		all = append(all, node.URL)
	}
	return all
}

// process is a process that is connected to a node.
func (n nodes) process(t *testing.T, node int, lease time.Duration) *fixture {
	t.Helper()
	return processWith(t, connect(t, n[node]), &external.Options{Lease: lease})
}

func connect(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// booked makes Finish write to a table that all nodes have: its COMMIT has two
// phases on a cluster.
func (n nodes) booked(f *fixture, cluster bool, tool external.Tool[in, out]) external.Tool[in, out] {
	f.t.Helper()
	tool = ledger(f, tool)
	if cluster {
		f.exec(`SELECT create_reference_table('ledger')
			WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'ledger'::regclass)`)
	}
	return tool
}

// TestCitus runs the promise on a Citus cluster, through all of its nodes.
func TestCitus(t *testing.T) {
	t.Parallel()
	throughNodes(t, true)
}

// TestPlayedCitus runs what is sent to Citus on PostgreSQL.
func TestPlayedCitus(t *testing.T) {
	t.Parallel()
	throughNodes(t, false)
}

func throughNodes(t *testing.T, cluster bool) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, bool){
		"Twins": nodesTwins, "Killed": nodesKilled, "LostCommits": nodesLostCommits, "LostNodes": nodesLostNodes, "Resolved": nodesResolved,
		"Accepted": nodesAccepted, "InFlight": nodesInFlight, "Forgotten": nodesForgotten, "Refused": nodesRefused,
		"FenceGrows": nodesFenceGrows, "SimpleProtocol": nodesSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, cluster)
		})
	}
}

// nodesTwins calls through all nodes at once: one of them acts, and all get its answer.
func nodesTwins(t *testing.T, cluster bool) {
	on, p := onNodes(t, cluster), newProvider()
	var all []*external.Handle[in, out]
	var fixtures []*fixture
	for n := range on {
		f := on.process(t, n, lease)
		tool := external.Tool[in, out]{Perform: p.perform}
		if n == 0 {
			tool = on.booked(f, cluster, tool)
		} else {
			tool = ledger(f, tool)
		}
		all, fixtures = append(all, add(f, tool)), append(fixtures, f)
	}
	for key := range 4 {
		var calls sync.WaitGroup
		answers := make([]dedup.Result[out], 9)
		errs := make([]error, len(answers))
		for i := range answers {
			calls.Go(func() { answers[i], errs[i] = all[i%len(all)].Do(t.Context(), call(fmt.Sprint(key)), in{key}) })
		}
		calls.Wait()
		require.NoError(t, errors.Join(errs...))
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
	}
	require.Equal(t, 4, p.effects())
	require.Equal(t, []string{"finish ch_1", "finish ch_2", "finish ch_3", "finish ch_4"}, fixtures[1].ledger())
}

// nodesKilled ends a process at a step. Recover on the two other nodes finds out what became
// of its attempt.
func nodesKilled(t *testing.T, cluster bool) {
	for step, fates := range map[external.EventKind]map[string]fate{
		external.EventSending: beforeSend, external.EventAnswered: afterSend, external.EventEnding: afterSend,
	} {
		for _, kind := range []string{"key", "find+settle", "find", "neither"} {
			t.Run(string(step)+"/"+kind, func(t *testing.T) {
				t.Parallel()
				want, on, p := fates[kind], onNodes(t, cluster), newProvider()
				dead := stop(t, on[0], performing(kind, p), step, p)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = dead.tools.Close(ended)
				f, other := on.process(t, 1, lease), on.process(t, 2, lease)
				killer := connect(t, on[0])
				_, err := killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stopped'`)
				require.NoError(t, err)
				dead.outlive(f)

				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), providerKey{}, p))
				defer cancel()
				var recovering sync.WaitGroup
				settled := make(chan struct{})
				var once sync.Once
				for _, f := range []*fixture{f, other} {
					tool := performing(kind, p)
					if tool.Find != nil {
						find := tool.Find
						tool.Find = func(_ context.Context, a external.Attempt, i in) ([]out, error) { return find(ctx, a, i) }
					}
					add(f, tool)
					f.steps.stopAt(func(data external.Event) {
						if data.Kind == external.EventRecorded || data.Kind == external.EventParked {
							once.Do(func() { close(settled) })
						}
					})
					recovering.Go(func() { _ = f.tools.Recover(ctx) })
				}
				select {
				case <-settled:
				case <-time.After(time.Minute):
					t.Errorf("nothing was recovered: %+v", f.lookup("k"))
				}
				cancel()
				recovering.Wait()
				expect(t, f, p, want)
				close(dead.goOn)
				dead.pool.Close()
				dead.calls.Wait()
			})
		}
	}
}

// nodesLostCommits loses the answer to each COMMIT of a call, and what is sent between nodes.
func nodesLostCommits(t *testing.T, cluster bool) {
	for name, where := range map[string]struct {
		commit int
		kind   faultproxy.Kind
	}{
		"claim/answer": {1, faultproxy.ReplyReset}, "claim/sent": {1, faultproxy.Dropped},
		"settling/answer": {2, faultproxy.ReplyReset}, "settling/sent": {2, faultproxy.Dropped},
	} {
		for _, between := range []bool{false, true} {
			if between && !cluster {
				continue
			}
			t.Run(fmt.Sprint(name, "/between=", between), func(t *testing.T) {
				t.Parallel()
				on, p := onNodes(t, cluster), newProvider()
				proxies := on.proxied(t, between)
				at := on[0]
				if !between {
					at = proxies[0].URL()
				}
				f := process(t, connect(t, at))
				tool := external.Tool[in, out]{
					KeyKept: external.Forever,
					Perform: func(_ context.Context, a external.Attempt, i in) (out, error) { return p.act(a.Key, i.Order), nil },
				}
				h := add(f, tool)
				_, err := h.Do(f.ctx, call("warm"), in{0})
				require.NoError(t, err)
				arm := func() {
					for _, proxy := range proxies {
						proxy.Arm(faultproxy.Fault{Kind: where.kind, Where: faultproxy.AtCommit})
					}
				}
				if where.commit == 1 {
					arm()
				} else {
					f.steps.stopAt(func(data external.Event) {
						if data.Kind == external.EventAnswered {
							arm()
						}
					})
				}
				result, err := h.Do(f.ctx, call("k"), in{1})
				require.NoError(t, err)
				require.Equal(t, out{"ch_2"}, result.Value)
				again, err := add(on.process(t, 1, lease), tool).Do(f.ctx, call("k"), in{1})
				require.NoError(t, err)
				require.True(t, again.Replayed)
				require.Equal(t, 2, p.effects())
			})
		}
	}
}

// nodesLostNodes cuts the connection at one statement after the other, between the nodes on a
// cluster: no call fails, and each acts once.
func nodesLostNodes(t *testing.T, cluster bool) {
	on, p := onNodes(t, cluster), newProvider()
	proxies := on.proxied(t, cluster)
	at := on[0]
	if !cluster {
		at = proxies[0].URL()
	}
	for _, refuses := range []bool{false, true} {
		f := processWith(t, connect(t, at), &external.Options{Lease: lease})
		h := add(f, external.Tool[in, out]{KeyKept: external.Forever, Perform: func(_ context.Context, a external.Attempt, i in) (out, error) {
			o := p.act(a.Key, i.Order)
			if refuses {
				return out{}, dedup.Final(errors.New("declined"))
			}
			return o, nil
		}})
		for n, done := 0, false; !done; n++ {
			var passed atomic.Int64
			var armed []*faultproxy.Armed
			for _, proxy := range proxies {
				armed = append(armed, proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: func(u faultproxy.Unit) bool {
					return u.Index > 0 && len(u.Executes) > 0 && !citusOwn.MatchString(u.Executes[0]) && passed.Add(1) == int64(n)+1
				}}))
			}
			acted := p.effects()
			_, err := h.Do(f.ctx, call(fmt.Sprint(refuses, n)), in{n})
			if refuses {
				require.ErrorIs(t, err, dedup.ErrRefused, n)
			} else {
				require.NoError(t, err, n)
			}
			require.Equal(t, acted+1, p.effects(), n)
			done = true
			for _, a := range armed {
				done = done && a.Count() == 0
				a.Disarm()
			}
		}
	}
}

// citusOwn is what Citus's own processes send, and what they send again within a minute where a
// node is lost: the second half of a two-phase commit.
var citusOwn = regexp.MustCompile(`dump_local_wait_edges|pg_prepared_xacts|application_name|^COMMIT PREPARED`)

// proxied puts fault proxies before the coordinator, or between the nodes and the workers.
func (n nodes) proxied(t *testing.T, between bool) (proxies []*faultproxy.Proxy) {
	t.Helper()
	behind := n[:1]
	if between {
		behind = n[1:]
	}
	for _, at := range behind {
		proxy, err := faultproxy.New(at)
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		proxies = append(proxies, proxy)
		if !between {
			continue
		}
		via, err := url.Parse(proxy.URL())
		require.NoError(t, err)
		own, err := url.Parse(at)
		require.NoError(t, err)
		for _, node := range n {
			_, err = connect(t, node).Exec(t.Context(), `UPDATE pg_dist_node SET nodename = $1, nodeport = $2::int WHERE nodeport = $3::int`, via.Hostname(), via.Port(), own.Port())
			require.NoError(t, err)
		}
	}
	return proxies
}

// nodesResolved parks through one node and resolves through another one.
func nodesResolved(t *testing.T, cluster bool) {
	for name, verdict := range map[string]external.Verdict{
		"happened": external.Happened(out{"ch_9"}, "seen").By("ada"), "never": external.Never("not seen").By("ada"), "refuse": external.Refuse("not seen").By("ada"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, n := onNodes(t, cluster), 0
			tool := external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
				if n++; n == 1 {
					return out{}, errLost
				}
				return out{fmt.Sprint("ch_", n)}, nil
			}}
			_, err := add(on.process(t, 0, lease), tool).Do(t.Context(), call("k"), in{1})
			require.ErrorAs(t, err, new(*external.ParkedError))
			f := on.process(t, 1, lease)
			h := add(f, tool)
			for _, op := range f.parked(t.Context()) {
				require.NoError(t, f.tools.Resolve(t.Context(), op, verdict))
			}
			result, err := h.Do(t.Context(), call("k"), in{1})
			switch name {
			case "refuse":
				require.ErrorIs(t, err, dedup.ErrRefused)
			case "happened":
				require.Equal(t, out{"ch_9"}, result.Value)
			default:
				require.Equal(t, out{"ch_2"}, result.Value)
			}
			var actor, action string
			require.NoError(t, f.pool.QueryRow(t.Context(), `SELECT actor, action FROM tool_dedup_audit`).Scan(&actor, &action))
			require.Equal(t, []string{"ada", name}, []string{actor, action})
		})
	}
}

// nodesAccepted writes intents through all nodes. Two Recover loops do each once.
func nodesAccepted(t *testing.T, cluster bool) {
	const each = 10
	on, p := onNodes(t, cluster), newProvider()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var fixtures []*fixture
	var mu sync.Mutex
	recorded := 0
	for n := range on {
		f := on.process(t, n, lease)
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
			require.NoError(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
				c := call(fmt.Sprint(n, "-", i))
				c.Scope = fmt.Sprint("tenant", i)
				_, err := h.Accept(ctx, tx, c, in{n*each + i})
				return err
			}))
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

// nodesInFlight meets an intent that is not committed, through another node: the wait for it
// is limited where it happens, and the caller's transaction stays usable.
func nodesInFlight(t *testing.T, cluster bool) {
	on := onNodes(t, cluster)
	tool := external.Tool[in, out]{Perform: answering("ch_1")}
	holds, f := on.process(t, 1, lease), on.process(t, 2, lease)
	held, err := holds.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = held.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = add(holds, tool).Accept(t.Context(), held, call("k"), in{1})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := add(f, tool)
	_, err = h.Do(ctx, impatient("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	tx, err := f.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = h.Accept(ctx, tx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	_, err = h.Accept(ctx, tx, call("other"), in{1})
	require.NoError(t, err)
	var limit string
	require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&limit))
	require.Equal(t, "0", limit)
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, external.Pending, f.lookup("other").State)
	require.NoError(t, held.Commit(ctx))
	result, err := h.Do(ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, out{"ch_1"}, result.Value)
}

// nodesForgotten deletes what may be forgotten, of all scopes, and nothing else.
func nodesForgotten(t *testing.T, cluster bool) {
	const scopes = 20
	f := onNodes(t, cluster).process(t, 1, lease)
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
	require.Equal(t, external.Done, op.State)

	// A key whose record is gone may be used anew.
	f.exec(`DELETE FROM tool_dedup`)
	f.exec(`UPDATE tool_effect SET forget_at = '2020-01-01'`)
	c := call("k")
	c.Scope = "tenant7"
	result, err := h.Do(f.ctx, c, in{1})
	require.NoError(t, err)
	require.False(t, result.Replayed)
}

// nodesRefused records a refusal together with what the tool writes.
func nodesRefused(t *testing.T, cluster bool) {
	on := onNodes(t, cluster)
	f := on.process(t, 0, lease)
	tool := external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		return out{}, dedup.Final(errors.New("declined"))
	}}
	h := add(f, on.booked(f, cluster, tool))
	other := on.process(t, 2, lease)
	for _, h := range []*external.Handle[in, out]{h, add(other, tool)} {
		_, err := h.Do(f.ctx, call("k"), in{1})
		require.ErrorIs(t, err, dedup.ErrRefused)
	}
	require.Equal(t, []string{"refused declined"}, other.ledger())
}

// nodesFenceGrows attempts through one node after the other: their sequences have ranges of
// their own, and the fence of each attempt is higher than the one before.
func nodesFenceGrows(t *testing.T, cluster bool) {
	on := onNodes(t, cluster)
	var fences []int64
	tool := external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		if len(fences) < 4 {
			return out{}, external.NotDone(errors.New("429"))
		}
		return out{"ch_1"}, nil
	}}
	for attempt, node := range []int{2, 0, 1, 0} {
		f := on.process(t, node, lease)
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

// nodesSimpleProtocol is refused before anything is sent: Citus would pass the claim on
// together with its limit.
func nodesSimpleProtocol(t *testing.T, cluster bool) {
	on, p := onNodes(t, cluster), newProvider()
	config, err := pgxpool.ParseConfig(on[0])
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	f := process(t, pool)
	h := add(f, external.Tool[in, out]{Perform: p.perform})
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.NoError(t, pgx.BeginFunc(f.ctx, pool, func(tx pgx.Tx) error {
		_, err := h.Accept(f.ctx, tx, call("k"), in{1})
		require.ErrorIs(t, err, dedup.ErrInvalid)
		return nil
	}))
	require.Zero(t, p.effects())
	require.Equal(t, external.None, f.lookup("k").State)
}
