package rpctest

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// clientKey: the client of a try of runner.Do sends the key of all tries. So the server sees one
// key and has one effect, although the first answer is lost. A request with another key is not
// sent: it may be new on every try.
func (door Door) clientKey(t *testing.T) {
	door.Dial = door.DialKeyed
	s := door.open(t, rpc.Options{}, nil)
	effects := 0
	for name, c := range map[string]struct {
		ctx       context.Context
		callKey   string
		requestID string
		sent      []string
		want      string // "" is the key that Do makes
	}{
		"MadeByDo":   {},
		"OfTheCall":  {callKey: "of the call", want: "of the call"},
		"WithKey":    {ctx: runner.WithKey(t.Context(), "of the context"), want: "of the context"},
		"Quoted":     {ctx: runner.WithKey(t.Context(), `"in" quotes`), want: `"in" quotes`},
		"SameField":  {callKey: "of the field", requestID: "of the field", want: "of the field"},
		"SameHeader": {callKey: "of-the-header", sent: []string{"of-the-header"}, want: "of-the-header"},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		var replayed []bool
		call := runner.Call{Tool: "create_order", Class: tool.Write, Key: c.callKey, Pause: 1}
		order, err := runner.Do(c.ctx, call, func(ctx context.Context) (*shop.Order, error) {
			if c.want == "" {
				c.want, _ = runner.KeyFrom(ctx)
			}
			in, out := lamp(), new(shop.Order)
			in.RequestId = c.requestID
			answer := s.send(ctx, Create, in, out, c.sent...)
			require.Nil(t, answer.Status, name)
			if replayed = append(replayed, answer.Replayed); len(replayed) == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			return out, nil
		})
		require.NoError(t, err, name)
		require.Equal(t, "lamp", order.GetId(), name)
		require.Equal(t, []bool{false, true}, replayed, name)
		effects++
		require.Equal(t, effects, s.rows(t), name)
		found, err := s.d.Lookup(t.Context(), "acme", Create[1:], c.want)
		require.NoError(t, err, name)
		require.Equal(t, dedup.StateDone, found.State, name)
	}

	for name, send := range map[string]func(ctx context.Context) Answer{
		"Field": func(ctx context.Context) Answer {
			in := lamp()
			in.RequestId = dedup.NewKey()
			return s.send(ctx, Create, in, new(shop.Order))
		},
		"Header": func(ctx context.Context) Answer { return s.send(ctx, Create, lamp(), new(shop.Order), dedup.NewKey()) },
		"Twice":  func(ctx context.Context) Answer { return s.send(ctx, Create, lamp(), new(shop.Order), "k", "k") },
	} {
		for _, key := range []string{"", "k"} { // without one, Do makes the key
			tries := 0
			_, err := runner.Do(t.Context(), runner.Call{Tool: "create_order", Class: tool.Write, Key: key, Pause: 1}, func(ctx context.Context) (int, error) {
				tries++
				answer := send(ctx)
				require.NotNil(t, answer.Status, name)
				return 0, answer.Err
			})
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid, name)
			require.Equal(t, "Key", invalid.Field, name)
			require.Equal(t, 1, tries, name)
			require.Equal(t, effects, s.rows(t), name)
		}
	}

	unavailable := door.Error(&status.Status{Code: int32(code.Code_UNAVAILABLE)})
	require.False(t, runner.IsRetryable(unavailable), "a try turns it into a *runner.StatusError")

	hidden := runner.WithKey(runner.WithKey(t.Context(), "hidden"), "")
	for range 2 {
		answer := s.send(hidden, Create, lamp(), new(shop.Order))
		require.Nil(t, answer.Status)
		require.False(t, answer.Replayed, "each request has a key of its own")
	}
}
