package faultproxy_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

func TestSteer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.proxy(t)
	conn := b.connect(t, p, pgx.QueryExecModeSimpleProtocol)
	var pid int32
	require.NoError(t, conn.QueryRow(b.ctx, "SELECT pg_backend_pid()").Scan(&pid))
	armed := p.Arm(faultproxy.Fault{Kind: faultproxy.Dropped}) // the pilot decides instead
	come, decision := make(chan faultproxy.Unit, 1), make(chan *faultproxy.Armed, 1)
	p.Steer(func(u faultproxy.Unit) *faultproxy.Armed {
		come <- u
		return <-decision
	})
	send := func(key string) <-chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := conn.Exec(b.ctx, "INSERT INTO done VALUES ('"+key+"')")
			answer <- err
		}()
		return answer
	}

	answer := send("passed")
	require.Equal(t, pid, (<-come).Backend)
	require.False(t, b.done(t, "passed"), "it is held")
	decision <- nil
	require.NoError(t, <-answer)

	answer = send("lost")
	<-come
	lost := p.Aim(faultproxy.Fault{Kind: faultproxy.ReplyReset})
	decision <- lost
	require.Error(t, <-answer)
	<-lost.Settled()
	require.True(t, b.done(t, "lost"))
	require.Zero(t, armed.Count())

	p.Steer(nil)
	conn = b.connect(t, p, pgx.QueryExecModeSimpleProtocol)
	require.Error(t, <-send("dropped"), "what is armed hits again")
	require.Equal(t, 1, armed.Count())
}

// An aimed fault whose connection ends before it can happen is settled too.
func TestAimSettles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.proxy(t)
	conn := b.connect(t, p, pgx.QueryExecModeSimpleProtocol)
	lost := p.Aim(faultproxy.Fault{Kind: faultproxy.ReplyReset})
	p.Steer(func(faultproxy.Unit) *faultproxy.Armed { return lost })
	_, err := conn.Exec(b.ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
	require.Error(t, err)
	<-lost.Settled()
	require.Zero(t, lost.Count())
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p := b.proxy(t)
			p.Rewrite(func(sql string) string { return strings.ReplaceAll(sql, "'sent", "'longer than what was sent") })
			conn := b.connect(t, p, mode)
			var got, arg string
			require.NoError(t, conn.QueryRow(b.ctx, "SELECT 'sent', $1::text", "sent").Scan(&got, &arg))
			require.Equal(t, "longer than what was sent", got)
			require.Equal(t, "sent", strings.TrimPrefix(arg, "longer than what was "), "simple_protocol has it in the text")
			require.Contains(t, p.Snapshot().Statements[len(p.Snapshot().Statements)-1], "SELECT 'sent'")
			p.Rewrite(nil)
			require.NoError(t, conn.QueryRow(b.ctx, "SELECT 'sent' || ''").Scan(&got))
			require.Equal(t, "sent", got)
		})
	}
}
