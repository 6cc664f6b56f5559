package faultproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// insert adds the row of key on a new connection, without a transaction.
func insert(t *testing.T, b *bundle, p *faultproxy.Proxy, key string) error {
	t.Helper()
	_, err := b.connect(t, p, pgx.QueryExecModeExec).Exec(b.ctx, "INSERT INTO done VALUES ($1)", key)
	return err
}

func TestHowOften(t *testing.T) {
	t.Parallel()

	b := setup(t)

	t.Run("Once", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Dropped})
		require.Error(t, insert(t, b, p, "once/1"))
		require.NoError(t, insert(t, b, p, "once/2"))
		require.Equal(t, 1, armed.Count())
	})

	t.Run("SkipAndTimes", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Skip: 1, Times: 2})
		require.NoError(t, insert(t, b, p, "skip/1"))
		require.Error(t, insert(t, b, p, "skip/2"))
		require.Error(t, insert(t, b, p, "skip/3"))
		require.NoError(t, insert(t, b, p, "skip/4"))
		require.Equal(t, 2, armed.Count())
		require.Equal(t, map[faultproxy.Kind]int{faultproxy.ReplyReset: 2}, p.Snapshot().Faults)
	})

	t.Run("AlwaysUntilDisarmed", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Times: -1})
		for range 3 {
			require.Error(t, insert(t, b, p, "always"))
		}
		armed.Disarm()
		require.NoError(t, insert(t, b, p, "always"))
		require.Equal(t, 3, armed.Count())
	})

	t.Run("InOrder", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		p.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtSQL("insert")})
		p.Arm(faultproxy.Fault{Kind: faultproxy.ReplyClosed})
		require.Error(t, insert(t, b, p, "order"))
		require.False(t, b.done(t, "order"))
		require.Error(t, insert(t, b, p, "order"))
		require.True(t, b.done(t, "order"))
	})

	t.Run("GivenBackWhenNotApplied", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.CutAfterBytes, Bytes: 400})
		conn := b.connect(t, p, pgx.QueryExecModeExec)
		require.NoError(t, conn.Ping(b.ctx))
		require.NoError(t, conn.Close(b.ctx))
		require.Zero(t, armed.Count())

		conn = b.connect(t, p, pgx.QueryExecModeExec)
		var err error
		for range 100 {
			if err = conn.Ping(b.ctx); err != nil {
				break
			}
		}
		require.Error(t, err)
		require.Equal(t, 1, armed.Count())
	})

	t.Run("UnknownKind", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		require.Panics(t, func() { p.Arm(faultproxy.Fault{}) })
	})
}

func TestWhere(t *testing.T) {
	t.Parallel()

	b := setup(t)

	for _, kind := range []faultproxy.Kind{
		faultproxy.ReplyReset, faultproxy.ReplyClosed, faultproxy.ReplyCut, faultproxy.Dropped, faultproxy.Delayed,
		faultproxy.CutBeforeSync, faultproxy.CutAfterBytes,
	} {
		t.Run("AtConnect/"+string(kind), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			p.Arm(faultproxy.Fault{Kind: kind, Where: faultproxy.AtConnect, Delay: 1})
			_, err := pgx.Connect(b.ctx, p.URL())
			require.Error(t, err)
			require.Equal(t, map[faultproxy.Kind]int{kind: 1}, p.Snapshot().Faults)
			require.NoError(t, insert(t, b, p, t.Name()))
		})
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()

	b := setup(t)
	kinds := []faultproxy.Kind{faultproxy.Hold, faultproxy.ReplyDelayed}

	for _, kind := range kinds {
		t.Run("AfterDelay/"+string(kind), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			armed := p.Arm(faultproxy.Fault{Kind: kind, Delay: time.Millisecond})
			require.NoError(t, insert(t, b, p, t.Name()))
			require.Equal(t, 1, armed.Count())
		})

		t.Run("Beforehand/"+string(kind), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			armed := p.Arm(faultproxy.Fault{Kind: kind, Times: -1})
			armed.Release()
			require.NoError(t, insert(t, b, p, t.Name()+"/1"))
			require.NoError(t, insert(t, b, p, t.Name()+"/2"))
			require.Equal(t, 2, armed.Count())
		})
	}

	t.Run("AfterTheClientGaveUp", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: faultproxy.AtSQL("insert")})
		conn := b.connect(t, p, pgx.QueryExecModeExec)
		ctx, cancel := context.WithCancel(b.ctx)
		result := make(chan error, 1)
		go func() {
			_, err := conn.Exec(ctx, "INSERT INTO done VALUES ($1)", t.Name())
			result <- err
		}()
		b.wait(t, armed.Wait)
		p.Refuse(true) // the CancelRequest, which could meet the statement when it is released
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		require.False(t, b.done(t, t.Name()))
		armed.Release()
		b.wait(t, armed.WaitSettled)
		require.True(t, b.done(t, t.Name()), "what the client sent was on its way")
		<-conn.PgConn().CleanupDone()
		require.Positive(t, p.Snapshot().Refused)
	})

	t.Run("NeverForAnAnswerNobodyAwaits", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed})
		conn := b.connect(t, p, pgx.QueryExecModeExec)
		ctx, cancel := context.WithCancel(b.ctx)
		result := make(chan error, 1)
		go func() { result <- conn.Ping(ctx) }()
		b.wait(t, armed.Wait)
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		<-conn.PgConn().CleanupDone()
	})

	t.Run("WaitGivesUp", func(t *testing.T) {
		t.Parallel()
		p := b.proxy(t)
		armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Hold})
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		require.ErrorIs(t, armed.Wait(ctx), context.Canceled)
		require.ErrorIs(t, armed.WaitSettled(ctx), context.Canceled)
	})
}
