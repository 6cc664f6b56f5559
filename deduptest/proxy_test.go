package deduptest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/deduptest"
)

// patience bounds every wait for something that is bound to happen.
const patience = 30 * time.Second

// proxied is a connection to a test's database by way of a proxy.
type proxied struct {
	*bundle
	proxy *deduptest.Proxy
	conn  *pgx.Conn
}

func setupProxy(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{bundle: setup(t)}
	var err error
	p.proxy, err = deduptest.NewProxy(p.url)
	require.NoError(t, err)
	t.Cleanup(p.proxy.Close)
	p.conn, err = pgx.Connect(t.Context(), p.proxy.URL())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.conn.Close(context.WithoutCancel(t.Context()))
		<-p.conn.PgConn().CleanupDone()
	})
	return p
}

// insert opens a ticket in a transaction of begin, insert, commit.
func (p *proxied) insert(ctx context.Context) error {
	return pgx.BeginFunc(ctx, p.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tickets (key, title) VALUES ($1, $2)`, "k", "printer on fire")
		return err
	})
}

func (p *proxied) tickets(t *testing.T) int {
	t.Helper()
	n, err := countTickets(t.Context(), p.pool)
	require.NoError(t, err)
	return n
}

func waited(t *testing.T, wait func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, wait(ctx))
}

func TestProxyFaultsThatCut(t *testing.T) {
	t.Parallel()
	for kind, test := range map[deduptest.Kind]struct {
		bytes     int64
		committed int
	}{
		deduptest.DropRequest: {0, 0},
		deduptest.CutRequest:  {4, 0},
		deduptest.OmitSync:    {0, 1},
		deduptest.ResetAnswer: {0, 1},
		deduptest.CloseAnswer: {0, 1},
		deduptest.CutAnswer:   {4, 1},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := setupProxy(t)
			fault := p.proxy.Inject(deduptest.Fault{Kind: kind, At: deduptest.AtCommit, Bytes: test.bytes})
			require.Error(t, p.insert(t.Context()))
			waited(t, fault.Wait)
			waited(t, fault.WaitSettled)
			require.Equal(t, test.committed, p.tickets(t))
			require.Equal(t, map[deduptest.Kind]int{kind: 1}, p.proxy.Seen().Faults)
		})
	}
}

func TestProxyFaultsThatHold(t *testing.T) {
	t.Parallel()
	for kind, committed := range map[deduptest.Kind]int{
		deduptest.HoldRequest: 0, deduptest.HoldAnswer: 1, deduptest.LateRequest: 0, deduptest.SwallowAnswer: 1,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := setupProxy(t)
			fault := p.proxy.Inject(deduptest.Fault{Kind: kind, At: deduptest.AtSQL("COMMIT")})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- p.insert(ctx) }()
			<-fault.Applied()
			if kind == deduptest.HoldAnswer || kind == deduptest.SwallowAnswer {
				waited(t, fault.WaitSettled)
			}
			require.Equal(t, committed, p.tickets(t))

			switch kind {
			case deduptest.LateRequest:
				require.Error(t, <-done)
				<-p.conn.PgConn().CleanupDone() // its CancelRequest must not meet the COMMIT
				fault.Release()
			case deduptest.SwallowAnswer:
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
			default:
				fault.Release()
				require.NoError(t, <-done)
			}
			waited(t, fault.WaitSettled)
			require.Equal(t, 1, p.tickets(t))
			require.Equal(t, 1, fault.Count())
		})
	}
}

func TestProxyAimsAtTheNthStatement(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	require.NoError(t, p.insert(t.Context())) // from now on all is prepared
	fault := p.proxy.Inject(deduptest.Fault{Kind: deduptest.HoldRequest, At: deduptest.AtStatement, Skip: 1, Delay: time.Millisecond})
	var held []string
	p.proxy.Inject(deduptest.Fault{Kind: deduptest.HoldRequest, Times: -1, At: func(u deduptest.Unit) bool {
		held = append(held, u.Statements...) // on the one connection's goroutine
		return false
	}})
	require.NoError(t, p.insert(t.Context()))
	require.Equal(t, 1, fault.Count())
	require.Equal(t, []string{"begin", "commit"}, held, "the second one was held by the first fault, its text known from an earlier Parse")
}

// TestProxyFollowsPipelines sends INSERT and COMMIT as one pipeline, of statements
// that were prepared by an earlier one.
func TestProxyFollowsPipelines(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	pipeline := func() error {
		tx, err := p.conn.Begin(t.Context())
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO tickets (key, title) VALUES ($1, $2)`, "k", "printer on fire")
		batch.Queue(`COMMIT`)
		return tx.SendBatch(t.Context(), batch).Close()
	}
	require.NoError(t, pipeline())
	var hit deduptest.Unit
	fault := p.proxy.Inject(deduptest.Fault{Kind: deduptest.ResetAnswer, At: func(u deduptest.Unit) bool {
		if u.Commits {
			hit = u // on the one connection's goroutine, and read after Wait
		}
		return u.Commits
	}})
	require.Error(t, pipeline())
	waited(t, fault.Wait)
	require.Equal(t, []string{`INSERT INTO tickets (key, title) VALUES ($1, $2)`, `COMMIT`}, hit.Statements)
	require.Empty(t, hit.Prepared)
	require.Equal(t, 2, p.tickets(t), "it was executed")
}

func TestProxyCounts(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	before := p.proxy.Seen()
	require.Equal(t, 1, before.Connections)
	require.NoError(t, p.insert(t.Context()))
	missed := p.proxy.Inject(deduptest.Fault{Kind: deduptest.DropRequest, At: deduptest.AtSQL("no such text")})
	require.NoError(t, p.insert(t.Context()))

	seen := p.proxy.Seen()
	require.Equal(t, 2, seen.Commits)
	require.Equal(t, 2, seen.Committed)
	require.Equal(t, []string{"begin", `INSERT INTO tickets (key, title) VALUES ($1, $2)`, "commit"}, seen.Statements[:3])
	require.Equal(t, 7, seen.Units, "two transactions of three, and one to prepare")
	require.Equal(t, 7, seen.RoundTrips)
	require.Greater(t, seen.BytesToServer, before.BytesToServer)
	require.Greater(t, seen.BytesToClient, before.BytesToClient)
	require.Zero(t, missed.Count())
	require.Empty(t, seen.Faults, "a fault that met nothing is none")

	const many = 5
	for range many {
		p.proxy.Inject(deduptest.Fault{Kind: deduptest.HoldRequest, At: deduptest.AtCommit, Delay: 1})
		require.NoError(t, p.insert(t.Context()))
	}
	require.Equal(t, map[deduptest.Kind]int{deduptest.HoldRequest: many}, p.proxy.Seen().Faults)
}

func TestProxyPassesCancelRequests(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.conn.Exec(ctx, `SELECT pg_sleep(600)`)
		done <- err
	}()
	require.Eventually(t, func() bool { return p.sleeping(t) }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	<-p.conn.PgConn().CleanupDone()
	require.Equal(t, 1, p.proxy.Seen().Cancels)
	require.Equal(t, 1, p.proxy.Seen().Connections, "a CancelRequest is no session")
	require.Eventually(t, func() bool { return !p.sleeping(t) }, patience, time.Millisecond)
}

// sleeping reports whether the server still executes the sleep.
func (p *proxied) sleeping(t *testing.T) (sleeping bool) {
	t.Helper()
	require.NoError(t, p.pool.QueryRow(t.Context(), `
		SELECT EXISTS (SELECT FROM pg_stat_activity
		               WHERE datname = current_database() AND wait_event = 'PgSleep')`).Scan(&sleeping))
	return sleeping
}

func TestProxyConnections(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	p.proxy.Refuse(true)
	_, err := pgx.Connect(t.Context(), p.proxy.URL())
	require.Error(t, err)
	require.Positive(t, p.proxy.Seen().Refused)
	p.proxy.Refuse(false)
	require.NoError(t, p.insert(t.Context()), "open connections go on")

	require.Positive(t, p.proxy.CutAll())
	require.Error(t, p.insert(t.Context()))

	_, err = deduptest.NewProxy("host=localhost")
	require.ErrorContains(t, err, "postgres://")
}

func TestFaultsThatCannotBe(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	for _, fault := range []deduptest.Fault{
		{}, {Kind: "drop"}, {Kind: deduptest.CutAnswer, Bytes: -1}, {Kind: deduptest.DropRequest, Skip: -1},
	} {
		require.Panics(t, func() { p.proxy.Inject(fault) })
	}
}

func TestDisarmedFaultsHitNothing(t *testing.T) {
	t.Parallel()
	p := setupProxy(t)
	fault := p.proxy.Inject(deduptest.Fault{Kind: deduptest.DropRequest, Times: -1})
	fault.Disarm()
	require.NoError(t, p.insert(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fault.Wait(ctx), context.Canceled)
}
