package grpcdedup_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// A request is sent twice. The program has generated code for the service; shop.CreateRequest has
// the field request_id.
func ExampleInterceptor_Unary() {
	pool, drop := pgtest.Example(`CREATE TABLE orders (item text)`)
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)
	interceptor, err := grpcdedup.New(d, grpcdedup.Options{
		Methods: []string{"/shop.v1.Orders/Create"}, // Orders_Create_FullMethodName
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	})
	must(err)
	_ = grpc.NewServer(grpc.ChainUnaryInterceptor(interceptor.Unary)) // calls the interceptor as follows

	create := func(ctx context.Context, in any) (any, error) {
		tx, _ := grpcdedup.Tx(ctx)
		item := in.(*shop.CreateRequest).GetItem()
		_, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, item)
		return &shop.Order{Id: "order of a " + item}, err
	}
	method := &grpc.UnaryServerInfo{FullMethod: "/shop.v1.Orders/Create"}
	for range 2 {
		order, err := interceptor.Unary(context.Background(), &shop.CreateRequest{RequestId: "k1", Item: "lamp"}, method, create)
		must(err)
		fmt.Println(order.(*shop.Order).GetId())
	}
	var rows int
	must(pool.QueryRow(context.Background(), `SELECT count(*) FROM orders`).Scan(&rows))
	fmt.Println("rows:", rows)

	// Output:
	// order of a lamp
	// order of a lamp
	// rows: 1
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
