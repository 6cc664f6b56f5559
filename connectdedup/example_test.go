package connectdedup_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"connectrpc.com/connect"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/connectdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// A request is sent twice. Generated code would make the handler and the client of the service;
// shop.CreateRequest has the field request_id.
func ExampleInterceptor() {
	ctx := context.Background()
	pool, drop := pgtest.Example(`CREATE TABLE orders (item text)`)
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)
	const procedure = "/shop.v1.Orders/Create" // OrdersCreateProcedure
	interceptor, err := connectdedup.New(d, connectdedup.Options{
		Methods: []string{procedure},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	must(err)
	create := func(ctx context.Context, in *connect.Request[shop.CreateRequest]) (*connect.Response[shop.Order], error) {
		tx, _ := connectdedup.Tx(ctx)
		if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, in.Msg.GetItem()); err != nil {
			return nil, err
		}
		return connect.NewResponse(&shop.Order{Id: "order of a " + in.Msg.GetItem()}), nil
	}
	server := httptest.NewServer(connect.NewUnaryHandler(procedure, create, connect.WithInterceptors(interceptor)))
	defer server.Close()

	orders := connect.NewClient[shop.CreateRequest, shop.Order](server.Client(), server.URL+procedure)
	for range 2 {
		response, err := orders.CallUnary(ctx, connect.NewRequest(&shop.CreateRequest{RequestId: "k1", Item: "lamp"}))
		must(err)
		fmt.Println(response.Msg.GetId(), "replayed:", response.Header().Get("Idempotency-Replayed") == "true")
	}
	var rows int
	must(pool.QueryRow(ctx, `SELECT count(*) FROM orders`).Scan(&rows))
	fmt.Println("rows:", rows)

	// Output:
	// order of a lamp replayed: false
	// order of a lamp replayed: true
	// rows: 1
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
