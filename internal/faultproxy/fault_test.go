package faultproxy_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// endings are the ways to end a transaction whose last statement inserts the row of key.
var endings = map[string]func(ctx context.Context, tx pgx.Tx, key string) error{
	"Commit": func(ctx context.Context, tx pgx.Tx, key string) error {
		if _, err := tx.Exec(ctx, "INSERT INTO done VALUES ($1)", key); err != nil {
			return err
		}
		return tx.Commit(ctx)
	},
	"Batch": func(ctx context.Context, tx pgx.Tx, key string) error {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO done VALUES ($1)", key)
		batch.Queue("COMMIT")
		return tx.SendBatch(ctx, batch).Close()
	},
}

// attempt runs a transaction to its end. Cancelling ends the call and not the tests that look at
// it.
type attempt struct {
	b      *bundle
	t      *testing.T
	armed  *faultproxy.Armed
	key    string
	cancel context.CancelFunc
	result chan error
	conn   *pgx.Conn
}

func (a *attempt) committed() bool { return a.b.done(a.t, a.key) }
func (a *attempt) applied()        { a.t.Helper(); a.b.wait(a.t, a.armed.Wait) }
func (a *attempt) settled()        { a.t.Helper(); a.b.wait(a.t, a.armed.WaitSettled) }

func (a *attempt) waiting() {
	a.t.Helper()
	select {
	case err := <-a.result:
		a.t.Fatalf("the call returned early: %v", err)
	default:
	}
}

func (a *attempt) fails() {
	a.t.Helper()
	require.Error(a.t, <-a.result)
	require.True(a.t, a.conn.IsClosed())
}

func (a *attempt) succeeds() {
	a.t.Helper()
	require.NoError(a.t, <-a.result)
	require.NoError(a.t, a.conn.Ping(a.b.ctx))
}

// truths are, for each kind of fault at COMMIT, the states that the client and the database see.
var truths = map[string]struct {
	fault faultproxy.Fault
	check func(a *attempt)
}{
	"ReplyReset":  {faultproxy.Fault{Kind: faultproxy.ReplyReset}, lostAnswer},
	"ReplyClosed": {faultproxy.Fault{Kind: faultproxy.ReplyClosed}, lostAnswer},
	"ReplyCut":    {faultproxy.Fault{Kind: faultproxy.ReplyCut}, lostAnswer},
	"CutToClient": {faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Direction: faultproxy.ToClient, Bytes: 2}, lostAnswer},
	"CutBeforeSync": {faultproxy.Fault{Kind: faultproxy.CutBeforeSync}, func(a *attempt) {
		a.fails()
		a.applied()
		require.True(a.t, a.committed())
	}},
	"Dropped":     {faultproxy.Fault{Kind: faultproxy.Dropped}, lostCommit},
	"CutToServer": {faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Bytes: 3}, lostCommit},
	"Delayed": {faultproxy.Fault{Kind: faultproxy.Delayed}, func(a *attempt) {
		a.fails()
		<-a.conn.PgConn().CleanupDone() // its CancelRequest must not meet the unit
		require.False(a.t, a.committed())
		a.armed.Release()
		a.settled()
		require.True(a.t, a.committed())
	}},
	"Blackhole": {faultproxy.Fault{Kind: faultproxy.Blackhole}, func(a *attempt) {
		a.applied()
		a.settled()
		require.True(a.t, a.committed())
		a.waiting()
		a.cancel()
		a.fails()
	}},
	"ReplyDelayed": {faultproxy.Fault{Kind: faultproxy.ReplyDelayed}, func(a *attempt) {
		a.applied()
		a.settled()
		require.True(a.t, a.committed())
		a.waiting()
		a.armed.Release()
		a.succeeds()
	}},
	"Hold": {faultproxy.Fault{Kind: faultproxy.Hold}, func(a *attempt) {
		a.applied()
		require.False(a.t, a.committed())
		a.waiting()
		a.armed.Release()
		a.succeeds()
		require.True(a.t, a.committed())
		a.settled()
	}},
}

func lostAnswer(a *attempt) {
	a.fails()
	require.True(a.t, a.committed())
	a.applied()
	a.settled()
}

func lostCommit(a *attempt) {
	a.fails()
	a.applied()
	a.settled()
	require.False(a.t, a.committed())
}

// TestFaultsAtCommit runs every kind of fault in every exec mode at both endings, with statements
// that pgx prepares for this transaction and with statements that it prepared for an earlier one.
func TestFaultsAtCommit(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, mode := range modes {
		for ending, end := range endings {
			for kind, truth := range truths {
				for _, warm := range []bool{false, true} {
					temperature := map[bool]string{false: "Cold", true: "Warm"}[warm]
					t.Run(mode.String()+"/"+ending+"/"+kind+"/"+temperature, func(t *testing.T) {
						t.Parallel()
						p := b.proxy(t)
						a := &attempt{b: b, t: t, key: t.Name(), result: make(chan error, 1), conn: b.connect(t, p, mode)}
						if warm {
							tx, err := a.conn.Begin(b.ctx)
							require.NoError(t, err)
							require.NoError(t, end(b.ctx, tx, a.key+"/before"))
							require.True(t, b.done(t, a.key+"/before"))
						}

						tx, err := a.conn.Begin(b.ctx)
						require.NoError(t, err)
						fault := truth.fault
						fault.Where = faultproxy.AtCommit
						a.armed = p.Arm(fault)
						p.Reset()
						ctx, cancel := context.WithCancel(b.ctx)
						defer cancel()
						a.cancel = cancel
						go func() { a.result <- end(ctx, tx, a.key) }()
						truth.check(a)

						seen := p.Snapshot()
						require.Equal(t, map[faultproxy.Kind]int{fault.Kind: 1}, seen.Faults)
						require.Equal(t, 1, a.armed.Count())
						require.Equal(t, 1, seen.Commits)
						require.Zero(t, seen.Connections)
					})
				}
			}
		}
	}
}

// TestCutBeforeSyncKeepsTheSync shows that a COMMIT takes effect without its Sync (see the test
// above), and that an INSERT without a transaction does not.
func TestCutBeforeSyncKeepsTheSync(t *testing.T) {
	t.Parallel()

	b := setup(t)
	p := b.proxy(t)
	armed := p.Arm(faultproxy.Fault{Kind: faultproxy.CutBeforeSync})
	_, err := b.connect(t, p, pgx.QueryExecModeExec).Exec(b.ctx, "INSERT INTO done VALUES ($1)", "key")
	require.Error(t, err)
	b.wait(t, armed.WaitSettled)
	require.False(t, b.done(t, "key"))
}

// TestCuts cuts a transaction's last batch behind its bytes, in each direction: every third one,
// and each of the last ones, which end the COMMIT's Execute. The transaction is committed if this
// message was complete, and otherwise not.
func TestCuts(t *testing.T) {
	t.Parallel()

	b := setup(t)
	end := endings["Batch"]
	begin := func(t *testing.T, p *faultproxy.Proxy) pgx.Tx {
		tx, err := b.connect(t, p, pgx.QueryExecModeExec).Begin(b.ctx)
		require.NoError(t, err)
		p.Reset()
		return tx
	}

	p := b.proxy(t)
	require.NoError(t, end(b.ctx, begin(t, p), "key/0000"))
	whole := p.Snapshot()

	for direction, total := range map[faultproxy.Direction]int64{
		faultproxy.ToServer: whole.BytesToServer, faultproxy.ToClient: whole.BytesToClient,
	} {
		t.Run([]string{"ToServer", "ToClient"}[direction], func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			const syncSize, near = 5, 20
			for k := range total {
				if k < total-near && k%3 != 0 { // each cut costs a connection
					continue
				}
				key := fmt.Sprintf("key/%d%03d", direction+1, k) // as long as the first one
				armed := p.Arm(faultproxy.Fault{
					Kind: faultproxy.CutAfterBytes, Where: faultproxy.AtCommit, Direction: direction, Bytes: k,
				})
				require.Error(t, end(b.ctx, begin(t, p), key), "byte %d", k)
				b.wait(t, armed.WaitSettled)
				want := direction == faultproxy.ToClient || k >= total-syncSize
				require.Equal(t, want, b.done(t, key), "byte %d of %d", k, total)
			}
		})
	}
}
