package rpctest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
	"github.com/tooldedup/dedup/tool"
)

// Run runs the tests of a door.
func Run(t *testing.T, door Door) {
	for name, test := range map[string]func(t *testing.T){
		"Once":         door.once,
		"PassedOn":     door.passedOn,
		"Keys":         door.keys,
		"ClientKey":    door.clientKey,
		"Pairs":        door.pairs,
		"Codes":        door.codes,
		"HandlerError": door.handlerError,
		"Refusal":      door.refusal,
		"RunAgain":     door.runAgain,
		"Headers":      door.headers,
		"Panic":        door.panics,
		"LostCommit":   door.lostCommit,
		"TwinsAnswer":  door.twinsAnswer,
		"RetentionOf":  door.retentionOf,
		"Tool":         door.tool,
		"New":          door.refusedOptions,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// once: a request that comes again gets an equal response, unknown fields and all.
func (door Door) once(t *testing.T) {
	s := door.open(t, rpc.Options{}, nil)
	first, answer := s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	require.False(t, answer.Replayed)
	require.Equal(t, door.Unknown, len(first.ProtoReflect().GetUnknown()) > 0)
	for range 3 {
		again, answer := s.order(t, lamp(), "k1")
		require.Nil(t, answer.Status)
		require.True(t, answer.Replayed)
		require.True(t, proto.Equal(first, again), "%v\n%v", first, again)
	}
	require.Equal(t, 1, s.rows(t))
	_, answer = s.order(t, lamp(), "k2")
	require.Nil(t, answer.Status)
	require.False(t, answer.Replayed)
	require.Equal(t, 2, s.rows(t))
	receipt := new(shop.Receipt)
	require.Nil(t, s.send(t.Context(), Pay, &shop.PayRequest{Order: "lamp"}, receipt, "k1").Status, "another method is another call")
	require.Equal(t, 3, s.rows(t))
}

// passedOn: a method that changes nothing and one that is not named have no transaction and no
// key.
func (door Door) passedOn(t *testing.T) {
	s := door.open(t, rpc.Options{}, nil)
	order, receipt := new(shop.Order), new(shop.Receipt)
	require.Nil(t, s.send(t.Context(), Get, &shop.PayRequest{}, order).Status)
	require.Nil(t, s.send(t.Context(), Touch, &shop.PayRequest{}, receipt).Status)
	require.Equal(t, "outside", order.GetId())
	require.Equal(t, "outside", receipt.GetId())
}

// keys: the field and the metadata name one call.
func (door Door) keys(t *testing.T) {
	s := door.open(t, rpc.Options{}, nil)
	in := &shop.CreateRequest{RequestId: "k1", Item: "lamp"}
	_, answer := s.order(t, in)
	require.Nil(t, answer.Status)
	for name, send := range map[string]func() Answer{
		"Field":    func() Answer { _, a := s.order(t, in); return a },
		"Both":     func() Answer { _, a := s.order(t, in, "k1"); return a },
		"Metadata": func() Answer { _, a := s.order(t, &shop.CreateRequest{Item: "lamp"}, "k1"); return a },
		"Quoted":   func() Answer { _, a := s.order(t, &shop.CreateRequest{Item: "lamp"}, `"k1"`); return a },
	} {
		answer := send()
		require.Nil(t, answer.Status, name)
		require.True(t, answer.Replayed, name)
	}
	require.Equal(t, 1, s.rows(t))
	for _, bad := range []string{"a\x01", strings.Repeat("k", 256), "null"} {
		_, answer = s.order(t, &shop.CreateRequest{RequestId: bad, Item: "lamp"})
		info, _ := details(t, answer.Status)
		require.Equal(t, "KEY_INVALID", info.GetReason())
		require.Contains(t, answer.Status.GetMessage(), "The key ", "%q", bad)
	}
	_, answer = s.order(t, lamp())
	require.Contains(t, answer.Status.GetMessage(), "in the field request_id or in the "+door.KeyPlace+" idempotency-key")
}

// handlerError: an error rolls back, comes as it is, and a retry runs the handler again.
func (door Door) handlerError(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			if runs++; runs > 1 {
				return s.create(ctx, in)
			}
			require.NoError(t, s.insert(ctx, "gone"))
			return nil, door.Error(&status.Status{Code: int32(code.Code_NOT_FOUND), Message: "no such item"})
		}
	})
	_, answer := s.order(t, lamp(), "k1")
	require.Equal(t, int32(code.Code_NOT_FOUND), answer.Status.GetCode())
	require.Equal(t, "no such item", answer.Status.GetMessage())
	require.Zero(t, s.rows(t))
	_, answer = s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, 1, s.rows(t))

	// The cause may be the error of another call in the handler.
	inner := dedup.Call{Scope: "acme", Tool: "reserve", Key: "r1"}
	s = door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, _ *shop.CreateRequest) (*shop.Order, error) {
			tx, _ := door.Tx(ctx)
			_, err := dedup.DoTx(ctx, s.d, tx, inner, func(context.Context, pgx.Tx) (int, error) { return 0, dedup.Final(errors.New("sold out")) })
			return nil, &caused{door.Error(&status.Status{Code: int32(code.Code_NOT_FOUND), Message: "no such item"}), err}
		}
	})
	_, answer = s.order(t, lamp(), "k1")
	require.Equal(t, int32(code.Code_NOT_FOUND), answer.Status.GetCode(), answer.Status)
	require.Empty(t, s.told)
}

// caused is an error of the door's library with a cause.
type caused struct {
	error
	cause error
}

func (e *caused) Unwrap() []error { return []error{e.error, e.cause} }

// retentionOf: a method's own Retention keeps what it does not set.
func (door Door) retentionOf(t *testing.T) {
	s := door.open(t, rpc.Options{
		Retention:   dedup.Retention{Result: -1},
		RetentionOf: map[string]dedup.Retention{Create: {Tombstone: 60 * 24 * time.Hour}},
	}, nil)
	_, answer := s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	var kept bool
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT result IS NOT NULL FROM tool_dedup WHERE forget_at > now() + interval '59 days'`).Scan(&kept))
	require.False(t, kept)
}

// refusal: Final makes an error the answer, with its details, after a failed statement too.
func (door Door) refusal(t *testing.T) {
	detail, err := anypb.New(&errdetails.LocalizedMessage{Locale: "en", Message: "declined"})
	require.NoError(t, err)
	declined := &status.Status{Code: int32(code.Code_RESOURCE_EXHAUSTED), Message: "card declined", Details: []*anypb.Any{detail}}
	runs := 0
	s := door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			runs++
			require.NoError(t, s.insert(ctx, "gone"))
			switch in.GetItem() {
			case "plain":
				return nil, dedup.Final(errors.New("no room"))
			case "aborted":
				require.Error(t, s.raise(ctx, "23505"))
			}
			return nil, dedup.Final(door.Error(declined))
		}
	})
	for i := range 3 {
		_, answer := s.order(t, lamp(), "k1")
		require.True(t, proto.Equal(declined, answer.Status), "%v", answer.Status)
		require.Equal(t, i > 0, answer.Replayed)
		_, answer = s.order(t, &shop.CreateRequest{Item: "aborted"}, "k3")
		require.True(t, proto.Equal(declined, answer.Status), "%v", answer.Status)
		require.Equal(t, i > 0, answer.Replayed)
		_, answer = s.order(t, &shop.CreateRequest{Item: "plain"}, "k2")
		require.Equal(t, int32(code.Code_FAILED_PRECONDITION), answer.Status.GetCode())
		require.Equal(t, "no room", answer.Status.GetMessage())
	}
	require.Equal(t, 3, runs)
	require.Zero(t, s.rows(t))
}

// runAgain: a handler whose statement met a fault that may pass runs again, and its message is as
// it came. A handler that hides a fault which does not pass is believed.
func (door Door) runAgain(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			runs++
			require.Equal(t, "lamp", in.GetItem())
			in.Item = "changed"
			state := "40001"
			if in.GetWeight() == 0 {
				state = "23505"
			}
			if runs == 1 || in.GetWeight() == 0 {
				require.Error(t, s.raise(ctx, state))
				return nil, door.Error(&status.Status{Code: int32(code.Code_ALREADY_EXISTS), Message: "a statement failed"})
			}
			return s.create(ctx, in)
		}
	})
	order, answer := s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, "changed", order.GetId())
	require.Equal(t, 2, runs)
	_, answer = s.order(t, &shop.CreateRequest{Item: "lamp"}, "k2")
	require.Equal(t, int32(code.Code_ALREADY_EXISTS), answer.Status.GetCode())
	require.Equal(t, 3, runs)
}

// headers: those of a run that is rolled back, by an error of the handler too, do not reach the
// client. A client of grpc-go retries no answer with a header.
func (door Door) headers(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			runs++
			door.Mark(ctx, fmt.Sprint(runs))
			if runs == 1 {
				return nil, s.raise(ctx, "40001")
			}
			return s.create(ctx, in)
		}
		service.Pay = func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error) {
			door.Mark(ctx, "gone")
			if in.GetOrder() == "none" {
				return nil, door.Error(&status.Status{Code: int32(code.Code_NOT_FOUND), Message: "no such order"})
			}
			tx, _ := door.Tx(ctx)
			return nil, tx.Commit(ctx)
		}
	})
	_, answer := s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, []string{"2"}, answer.Runs)
	_, answer = s.order(t, lamp(), "k1")
	require.True(t, answer.Replayed)
	require.Empty(t, answer.Runs)
	answer = s.send(t.Context(), Pay, &shop.PayRequest{}, new(shop.Receipt), "k2")
	require.Equal(t, int32(code.Code_INTERNAL), answer.Status.GetCode())
	require.Empty(t, answer.Runs)
	answer = s.send(t.Context(), Pay, &shop.PayRequest{Order: "none"}, new(shop.Receipt), "k3")
	require.Equal(t, int32(code.Code_NOT_FOUND), answer.Status.GetCode())
	require.Empty(t, answer.Runs)
}

// panics: a panic rolls back, and the method can be called again.
func (door Door) panics(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, func(s *server, service *Service) {
		service.Create = func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			if runs++; runs == 1 {
				require.NoError(t, s.insert(ctx, "gone"))
				door.Mark(ctx, "gone")
				panic("the handler's own")
			}
			return s.create(ctx, in)
		}
	})
	_, answer := s.order(t, lamp(), "k1")
	require.NotNil(t, answer.Status)
	require.Empty(t, answer.Runs)
	require.Zero(t, s.rows(t))
	_, answer = s.order(t, lamp(), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, 1, s.rows(t))
}

// refusedOptions: New refuses a server that could not keep its promise.
func (door Door) refusedOptions(t *testing.T) {
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	other, err := dedup.New(d.Pool(), nil)
	require.NoError(t, err)
	scope := func(context.Context) (string, error) { return "acme", nil }
	tools, elsewhere := tool.NewRegistry(d, nil), tool.NewRegistry(other, nil)
	require.NoError(t, door.New(d, rpc.Options{Scope: scope, Methods: []string{Create, Get}}))
	for name, c := range map[string]struct {
		field string
		opts  rpc.Options
	}{
		"NoScope":      {"Scope", rpc.Options{Methods: []string{Create}}},
		"NoMethod":     {"Methods", rpc.Options{Scope: scope}},
		"OnlyReads":    {"Methods", rpc.Options{Scope: scope, Methods: []string{Get}}},
		"Streams":      {"Methods", rpc.Options{Scope: scope, Methods: []string{Create, Watch}}},
		"Unknown":      {"Methods", rpc.Options{Scope: scope, Methods: []string{"/shop.v1.Orders/Delete"}}},
		"NoPath":       {"Methods", rpc.Options{Scope: scope, Methods: []string{"Create"}}},
		"NotAMethod":   {"Methods", rpc.Options{Scope: scope, Methods: []string{"/shop.v1.CreateRequest/item"}}},
		"Twice":        {"Methods", rpc.Options{Scope: scope, Methods: []string{Create, Create}}},
		"RetryAfter":   {"RetryAfter", rpc.Options{Scope: scope, Methods: []string{Create}, RetryAfter: -1}},
		"NoRegistry":   {"Tools", rpc.Options{Scope: scope, ToolOf: map[string]string{Create: "create_order"}}},
		"NoTool":       {"ToolOf", rpc.Options{Scope: scope, Tools: tools, ToolOf: map[string]string{Create: "create_order"}}},
		"ToolOfARead":  {"ToolOf", rpc.Options{Scope: scope, Tools: tools, ToolOf: map[string]string{Get: "create_order"}}},
		"NotNamed":     {"RetentionOf", rpc.Options{Scope: scope, Methods: []string{Create}, RetentionOf: map[string]dedup.Retention{Pay: {}}}},
		"NoRetention":  {"RetentionOf", rpc.Options{Scope: scope, Methods: []string{Create}, RetentionOf: map[string]dedup.Retention{Create: {Result: -1, Tombstone: -1}}}},
		"OtherDeduper": {"Tools", rpc.Options{Scope: scope, Tools: elsewhere, Methods: []string{Create}}},
	} {
		var invalid *dedup.InvalidError
		require.ErrorAs(t, door.New(d, c.opts), &invalid, name)
		require.Equal(t, c.field, invalid.Field, name)
	}
	require.ErrorIs(t, door.New(nil, rpc.Options{Scope: scope, Methods: []string{Create}}), dedup.ErrInvalid)
}
