package rpctest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// details returns the details of a status of the door's own.
func details(t *testing.T, s *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo) {
	t.Helper()
	for _, packed := range s.GetDetails() {
		detail, err := packed.UnmarshalNew()
		require.NoError(t, err)
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.RetryInfo:
			retry = detail
		}
	}
	require.Equal(t, rpc.Domain, info.GetDomain(), "%v", s)
	return info, retry
}

// codes: what can be brought about at a server has the reason and the code of the table in the
// package's documentation. TestStatus of package rpc has every reason.
func (door Door) codes(t *testing.T) {
	create := func(in *shop.CreateRequest, keys ...string) func(t *testing.T, s *server) Answer {
		return func(t *testing.T, s *server) Answer {
			t.Helper()
			_, answer := s.order(t, in, keys...)
			return answer
		}
	}
	scoped := func(scope string, err error) rpc.Options {
		return rpc.Options{Scope: func(context.Context) (string, error) { return scope, err }}
	}
	failing := func(effect func(ctx context.Context, tx pgx.Tx) error) func(*server, *Service) {
		return func(s *server, service *Service) {
			service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
				tx, _ := door.Tx(ctx)
				return &shop.Order{}, effect(ctx, tx)
			}
		}
	}
	cases := map[string]struct {
		opts   rpc.Options
		change func(*server, *Service)
		send   func(t *testing.T, s *server) Answer
		code   code.Code
		reason string
		later  bool // RetryInfo is sent
		told   bool // to OnError
	}{
		"KeyRequired":   {send: create(lamp()), code: code.Code_INVALID_ARGUMENT, reason: "KEY_REQUIRED"},
		"KeyEmpty":      {send: create(lamp(), ""), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyNull":       {send: create(lamp(), "null"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyLong":       {send: create(lamp(), strings.Repeat("k", 256)), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysTwo":       {send: create(lamp(), "k1", "k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysJoined":    {send: create(lamp(), "k1, k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeysDiffer":    {send: create(&shop.CreateRequest{RequestId: "k1"}, "k2"), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"KeyControl":    {send: create(&shop.CreateRequest{RequestId: "a\nb"}), code: code.Code_INVALID_ARGUMENT, reason: "KEY_INVALID"},
		"AnyUnknown":    {send: create(&shop.CreateRequest{Note: &anypb.Any{TypeUrl: "type.googleapis.com/shop.v2.Line"}}, "k"), code: code.Code_INVALID_ARGUMENT, reason: "ARGUMENTS_INVALID"},
		"Unidentified":  {opts: scoped("", errors.New("canary")), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"ScopeEmpty":    {opts: scoped("", nil), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"ScopeOfItsOwn": {opts: scoped("", door.Error(&status.Status{Code: int32(code.Code_UNAUTHENTICATED), Message: "log in"})), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED},
		"ScopeOK":       {opts: scoped("", door.Error(&status.Status{Message: "canary"})), send: create(lamp(), "k"), code: code.Code_UNAUTHENTICATED, reason: "UNIDENTIFIED", told: true},
		"FinalOK": {change: failing(func(context.Context, pgx.Tx) error {
			return dedup.Final(door.Error(&status.Status{Message: "canary"}))
		}), send: create(lamp(), "k"), code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"Expired": {send: func(t *testing.T, s *server) Answer {
			create(lamp(), "k")(t, s)
			_, err := s.pool.Exec(t.Context(), `UPDATE tool_dedup SET created_at = created_at - interval '1 day', expires_at = created_at`)
			require.NoError(t, err)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"NotKept": {opts: rpc.Options{Retention: dedup.Retention{Result: -1}}, send: func(t *testing.T, s *server) Answer {
			first, answer := s.order(t, lamp(), "k")
			require.Nil(t, answer.Status)
			require.NotEmpty(t, first.GetId())
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"OneNotKept": {opts: rpc.Options{RetentionOf: map[string]dedup.Retention{Create: {Result: -1}}}, send: func(t *testing.T, s *server) Answer {
			for range 2 {
				require.Nil(t, s.send(t.Context(), Pay, &shop.PayRequest{}, new(shop.Receipt), "k").Status, "another method keeps its response")
			}
			create(lamp(), "k")(t, s)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, reason: "EXPIRED"},
		"Blocked": {change: failing(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ('canary')`)
			if err == nil {
				_, err = tx.Conn().Exec(ctx, `COMMIT`) // around the guard
			}
			return err
		}), send: create(lamp(), "k"), code: code.Code_FAILED_PRECONDITION, reason: "BLOCKED", told: true},
		"EndsItself": {change: failing(func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }), send: create(lamp(), "k"), code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"FinalOfDatabase": {change: failing(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 'canary'::int`)
			return dedup.Final(err)
		}), send: func(t *testing.T, s *server) Answer {
			first := create(lamp(), "k")(t, s)
			require.NotContains(t, first.Status.GetMessage(), "canary")
			return create(lamp(), "k")(t, s)
		}, code: code.Code_FAILED_PRECONDITION, told: true},
		"NoSchema": {send: func(t *testing.T, s *server) Answer {
			_, err := s.pool.Exec(t.Context(), `ALTER TABLE tool_dedup RENAME TO canary`)
			require.NoError(t, err)
			return create(lamp(), "k")(t, s)
		}, code: code.Code_INTERNAL, reason: "FAILED", told: true},
		"InFlight": {opts: rpc.Options{MaxWait: -1, RetryAfter: 20 * time.Millisecond}, change: func(s *server, service *Service) {
			service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
				if _, twin := s.order(t, in, "k"); twin.Status != nil {
					if twin.Wait == "" {
						return nil, errors.New("the client's library is not told to wait")
					}
					return nil, door.Error(twin.Status)
				}
				return &shop.Order{}, nil
			}
		}, send: create(lamp(), "k"), code: code.Code_ABORTED, reason: "IN_FLIGHT", later: true},
		"Timeout": {change: failing(func(ctx context.Context, _ pgx.Tx) error {
			<-ctx.Done()
			return ctx.Err()
		}), send: func(t *testing.T, s *server) Answer {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			return s.send(ctx, Create, lamp(), new(shop.Order), "k")
		}, code: code.Code_DEADLINE_EXCEEDED},
	}
	if !door.Unknown {
		delete(cases, "AnyUnknown") // a client of JSON cannot write it
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := door.open(t, c.opts, c.change)
			answer := c.send(t, s)
			require.Equal(t, c.code.String(), code.Code(answer.Status.GetCode()).String(), "%v", answer.Status)
			if c.reason != "" {
				info, retry := details(t, answer.Status)
				require.Equal(t, c.reason, info.GetReason())
				require.Equal(t, c.later, retry.GetRetryDelay().AsDuration() == 20*time.Millisecond)
				require.NotEmpty(t, answer.Status.GetMessage())
			}
			require.NotContains(t, answer.Status.GetMessage(), "canary")
			require.Equal(t, c.told, len(s.told) == 1)
		})
	}
}
