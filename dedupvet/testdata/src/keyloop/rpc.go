package keyloop

import (
	"context"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

type grpcOrders interface {
	Create(ctx context.Context, item string, opts ...grpc.CallOption) (int, error)
}

type connectOrdersClient interface {
	Create(ctx context.Context, in *connect.Request[string]) (*connect.Response[string], error)
}

func overGRPC(ctx context.Context, orders grpcOrders) (err error) {
	for range 3 {
		keyed := runner.WithKey(ctx, dedup.NewKey()) // want `Idempotency-Key is minted by dedup.NewKey for every try`
		if _, err = orders.Create(keyed, "lamp"); err == nil {
			return nil
		}
	}
	for range 3 {
		keyed := metadata.AppendToOutgoingContext(ctx, "x-request-id", "r", "idempotency-key", uuid.NewString()) // want `Idempotency-Key is minted by uuid.NewString for every try`
		if _, err = orders.Create(keyed, "lamp"); err == nil {
			return nil
		}
	}
	md := metadata.Pairs()
	for attempt := range 3 {
		md.Set("idempotency-key", string(rune(attempt))) // want `Idempotency-Key has attempt in it`
		if _, err = orders.Create(metadata.NewOutgoingContext(ctx, md), "lamp"); err == nil {
			return nil
		}
	}
	return err
}

func overConnect(ctx context.Context, orders connectOrdersClient, item string) (err error) {
	for range 3 {
		in := connect.NewRequest(&item)
		in.Header().Set("Idempotency-Key", uuid.NewString()) // want `Idempotency-Key is minted by uuid.NewString for every try`
		if _, err = orders.Create(ctx, in); err == nil {
			return nil
		}
	}
	return err
}

func createOnce(ctx context.Context, orders grpcOrders) error {
	_, err := orders.Create(runner.WithKey(ctx, dedup.NewKey()), "lamp") // want `Idempotency-Key is minted by dedup.NewKey for every try of the loop`
	return err
}

func createdAgain(ctx context.Context, orders grpcOrders) error {
	return retry(func() error { return createOnce(ctx, orders) })
}

func createUntilDone(ctx context.Context, orders grpcOrders) {
	for createOnce(ctx, orders) != nil {
	}
}

// A key for each request, and one for all tries of a request.
func overRPCWell(ctx context.Context, orders grpcOrders, connected connectOrdersClient, items []string) (err error) {
	for _, item := range items {
		if _, err = orders.Create(runner.WithKey(ctx, dedup.NewKey()), item); err == nil {
			break
		}
	}
	keyed := runner.WithKey(ctx, dedup.NewKey())
	for {
		traced := metadata.AppendToOutgoingContext(keyed, "x-request-id", uuid.NewString())
		if _, err = orders.Create(traced, "lamp"); err == nil {
			break
		}
	}
	in := connect.NewRequest(&items[0])
	in.Header().Set("Idempotency-Key", uuid.NewString())
	for {
		if _, err = connected.Create(ctx, in); err == nil {
			return nil
		}
	}
}
