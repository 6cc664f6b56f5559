package rpctest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
	"github.com/tooldedup/dedup/tool"
)

// createIn are the arguments of the tool that answers for Create.
type createIn struct {
	Item   string `json:"item"`
	Amount int64  `json:"amount"`
}

// ownKeyIn has the field request_id as the key of its own.
type ownKeyIn struct {
	RequestID string `json:"requestId" dedup:"key"`
	Item      string `json:"item,omitempty"`
}

type payIn struct {
	Amount int64 `json:"amount"`
}

type createOut struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// tool: a call of a registry's tool is the same one by HTTP and by RPC.
func (door Door) tool(t *testing.T) {
	runs := 0
	s := door.open(t, rpc.Options{}, nil)
	tools := tool.NewRegistry(s.d, nil)
	require.NoError(t, tools.Add(tool.Tool[createIn, createOut]{
		Name: "create_order", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in createIn) (createOut, error) {
			runs++
			if in.Amount < 0 {
				return createOut{}, dedup.Final(errors.New("no such amount"))
			}
			_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ($1)`, in.Item)
			return createOut{"o1", in.Amount}, err
		},
	}, tool.Tool[ownKeyIn, createOut]{
		Name: "own_key", Class: tool.Write,
		Run: func(_ context.Context, _ pgx.Tx, in ownKeyIn) (createOut, error) {
			return createOut{in.RequestID + " " + in.Item, 0}, nil
		},
	}, tool.Tool[payIn, map[string]int]{
		Name: "pay", Class: tool.Write,
		Run: func(context.Context, pgx.Tx, payIn) (map[string]int, error) { return map[string]int{"other": 1}, nil },
	}))
	scope := func(context.Context) (string, error) { return "acme", nil }
	send := door.serve(t, s.d, rpc.Options{Scope: scope, Tools: tools, ToolOf: map[string]string{Create: "create_order", Pay: "pay"}, OnError: func(context.Context, string, error) {}}, Service{})
	web, err := httpdedup.New(s.d, httpdedup.Options{Tools: tools, Scope: func(*http.Request) (string, error) { return "acme", nil }})
	require.NoError(t, err)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"amount": 9007199254740993, "item": "lamp"}`))
	request.Header.Set("Idempotency-Key", `"k1"`)
	recorder := httptest.NewRecorder()
	web.Tool("create_order").ServeHTTP(recorder, request)
	require.Equal(t, http.StatusOK, recorder.Code, recorder.Body)

	order := new(shop.Order)
	answer := send(t.Context(), Create, &shop.CreateRequest{RequestId: "k1", Item: "lamp", Amount: 1<<53 + 1}, order)
	require.Nil(t, answer.Status, "%v", answer.Status)
	require.True(t, answer.Replayed)
	require.Equal(t, int64(1<<53+1), order.GetAmount())
	require.Equal(t, 1, runs)

	for i := range 2 {
		answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Amount: -1}, order, "k2")
		info, _ := details(t, answer.Status)
		require.Equal(t, "REFUSED", info.GetReason())
		require.Equal(t, "no such amount", answer.Status.GetMessage())
		require.Equal(t, i == 1, answer.Replayed)
	}
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Amount: 2}, order, "k1")
	info, _ := details(t, answer.Status)
	require.Equal(t, "KEY_REUSED", info.GetReason())
	require.Equal(t, "amount", info.GetMetadata()["changed"])
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp", Coupon: new(string)}, order, "k3")
	info, _ = details(t, answer.Status)
	require.Equal(t, "ARGUMENTS_INVALID", info.GetReason())
	answer = send(t.Context(), Create, &shop.CreateRequest{Item: "lamp"}, order)
	info, _ = details(t, answer.Status)
	require.Equal(t, "KEY_REQUIRED", info.GetReason())

	answer = send(t.Context(), Pay, &shop.PayRequest{Amount: 1}, new(shop.Receipt), "k4")
	info, _ = details(t, answer.Status)
	require.Equal(t, "FAILED", info.GetReason(), "a result of which nothing fits the response")

	send = door.serve(t, s.d, rpc.Options{Scope: scope, Tools: tools, ToolOf: map[string]string{Create: "own_key"}, OnError: func(context.Context, string, error) {}}, Service{})
	for i := range 2 {
		order = new(shop.Order)
		answer = send(t.Context(), Create, &shop.CreateRequest{RequestId: "r1", Item: "lamp"}, order)
		require.Nil(t, answer.Status, "%v", answer.Status)
		require.Equal(t, "r1 lamp", order.GetId(), "the tool's own key reaches it")
		require.Equal(t, i == 1, answer.Replayed)
	}
}
