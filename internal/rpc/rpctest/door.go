// Package rpctest has the tests that grpcdedup and connectdedup share. They hold the promises of an
// interceptor to the clients of a server.
package rpctest

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// Door is a package with an interceptor, as the tests reach it.
type Door struct {
	// New is the package's New.
	New func(d *dedup.Deduper, opts rpc.Options) error
	// Server makes a server of the service behind the interceptor, with another one before it
	// that recovers from panics.
	Server func(d *dedup.Deduper, opts rpc.Options, s Service) (Server, error)
	// Dial returns a client of the server at an address, which retries by its library's own policy
	// if it has one.
	Dial func(t testing.TB, addr string) Client
	// DialKeyed is Dial of a client with the package's ClientKey.
	DialKeyed func(t testing.TB, addr string) Client
	// Tx is the package's Tx.
	Tx func(ctx context.Context) (pgx.Tx, bool)
	// Error returns an error of the package's library.
	Error func(s *status.Status) error
	// Mark sets the header "run" of the response in a handler.
	Mark func(ctx context.Context, run string)
	// KeyPlace is what clients call the place of a key that is no field.
	KeyPlace string
	// Unknown reports that messages travel with their unknown fields, as they do but in JSON.
	Unknown bool
}

// Server is what *http.Server is.
type Server interface {
	Serve(l net.Listener) error
	Close() error
}

// Service are the methods of shop.v1.Orders that do not stream.
type Service struct {
	Create func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error)
	Pay    func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error)
	Get    func(ctx context.Context, in *shop.PayRequest) (*shop.Order, error)
	Touch  func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error)
}

// The paths of the methods.
const (
	Create = "/shop.v1.Orders/Create"
	Pay    = "/shop.v1.Orders/Pay"
	Get    = "/shop.v1.Orders/Get"
	Touch  = "/shop.v1.Orders/Touch"
	Watch  = "/shop.v1.Orders/Watch"
)

// Client sends a request with keys as its metadata idempotency-key, and reads the response into
// out.
type Client func(ctx context.Context, method string, in, out proto.Message, keys ...string) Answer

// Answer describes the answer to a request, without the response.
type Answer struct {
	// Status and Err, the client's error, are nil after a response.
	Status *status.Status
	Err    error
	// Replayed reports that the answer was marked as an earlier request's.
	Replayed bool
	// Runs are the values of the header that Mark sets.
	Runs []string
	// Wait is how long the client's library is told to wait before it tries again, in the unit of
	// its header: "" if it is not told.
	Wait string
}

// server is a server with its database.
type server struct {
	door Door
	pool *pgxpool.Pool
	d    *dedup.Deduper
	send Client
	// told are the errors that OnError was told.
	told chan error
}

// open starts a server. Its method Create writes a row; change the service to do otherwise.
func (door Door) open(t *testing.T, opts rpc.Options, change func(s *server, service *Service), config ...func(*pgxpool.Config)) *server {
	t.Helper()
	s := &server{door: door, told: make(chan error, 10)}
	s.pool = pgtest.New(t).Pool(t, config...)
	_, err := s.pool.Exec(t.Context(), `CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)`)
	require.NoError(t, err)
	s.d, err = dedup.New(s.pool, nil)
	require.NoError(t, err)
	if opts.Methods == nil && opts.ToolOf == nil {
		opts.Methods = []string{Create, Pay, Get}
	}
	if opts.Scope == nil {
		opts.Scope = func(context.Context) (string, error) { return "acme", nil }
	}
	opts.OnError = func(_ context.Context, _ string, err error) { s.told <- err }
	service := Service{
		Create: s.create,
		Pay: func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error) {
			return &shop.Receipt{Id: in.GetOrder()}, s.insert(ctx, in.GetOrder())
		},
		Get: func(ctx context.Context, in *shop.PayRequest) (*shop.Order, error) {
			_, inside := door.Tx(ctx)
			return &shop.Order{Id: map[bool]string{true: "inside", false: "outside"}[inside]}, nil
		},
		Touch: func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error) {
			_, inside := door.Tx(ctx)
			return &shop.Receipt{Id: map[bool]string{true: "inside", false: "outside"}[inside]}, nil
		},
	}
	if change != nil {
		change(s, &service)
	}
	s.send = door.serve(t, s.d, opts, service)
	return s
}

// serve starts a server on a free port, until the test ends.
func (door Door) serve(t *testing.T, d *dedup.Deduper, opts rpc.Options, s Service) Client {
	t.Helper()
	server, err := door.Server(d, opts, s)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-ended
	})
	return door.Dial(t, listener.Addr().String())
}

// create writes a row and answers with unknown fields.
func (s *server) create(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
	if err := s.insert(ctx, in.GetItem()); err != nil {
		return nil, err
	}
	order := &shop.Order{Id: in.GetItem(), Amount: in.GetAmount(), Stock: map[string]int32{"a": 1, "b": 2, "c": 3}}
	order.ProtoReflect().SetUnknown(unknown(99, "later"))
	return order, nil
}

// raise has a statement of the handler's transaction fail.
func (s *server) raise(ctx context.Context, state string) error {
	tx, _ := s.door.Tx(ctx)
	_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '`+state+`'; END $$`)
	return err
}

func (s *server) insert(ctx context.Context, item string) error {
	tx, ok := s.door.Tx(ctx)
	if !ok {
		panic("rpctest: an intercepted method without a transaction")
	}
	_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ($1)`, item)
	return err
}

// order sends a request of Create.
func (s *server) order(t *testing.T, in *shop.CreateRequest, keys ...string) (*shop.Order, Answer) {
	t.Helper()
	out := new(shop.Order)
	return out, s.send(t.Context(), Create, in, out, keys...)
}

func (s *server) rows(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(*) FROM orders`).Scan(&n))
	return n
}

// lamp is an order with something in each kind of field.
func lamp() *shop.CreateRequest {
	return &shop.CreateRequest{
		Item: "lamp", Amount: 1<<53 + 1, Lines: []*shop.Line{{Sku: "a", Count: 1}, {Sku: "b", Count: 2}},
		ByName: map[string]*shop.Line{"x": {Sku: "x"}, "y": {Sku: "y"}, "z": {Sku: "z"}},
		Due:    &timestamppb.Timestamp{Seconds: 1_800_000_000}, Weight: 1.5, Photo: []byte{0, 255},
		To: &shop.CreateRequest_Address{Address: "Main Street 1"}, Color: shop.Color_COLOR_RED,
	}
}
