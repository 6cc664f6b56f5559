package rpctest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// asServer is the environment variable with the database of a server that the test program is to
// be.
const asServer = "DEDUP_RPCTEST_SERVER"

// Main is a package's TestMain: it runs the tests, or the server that Killed kills.
func Main(m *testing.M, door Door) {
	url := os.Getenv(asServer)
	if url == "" {
		pgtest.Main(m)
		return
	}
	if err := door.beServer(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beServer serves until the process is killed, and writes its address to its output.
func (door Door) beServer(url string) error {
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	d, err := dedup.New(pool, nil)
	if err != nil {
		return err
	}
	insert := `INSERT INTO orders (item) VALUES ($1)`
	server, err := door.Server(d, rpc.Options{
		Methods: []string{Create},
		Scope:   func(context.Context) (string, error) { return "acme", nil },
	}, Service{
		Create: func(ctx context.Context, in *shop.CreateRequest) (*shop.Order, error) {
			tx, _ := door.Tx(ctx)
			_, err := tx.Exec(ctx, insert, in.GetItem())
			return &shop.Order{Id: fmt.Sprint(in.GetItem(), rand.Int64())}, err
		},
		// Touch is the control. It is not intercepted, and writes through the pool.
		Touch: func(ctx context.Context, in *shop.PayRequest) (*shop.Receipt, error) {
			_, err := pool.Exec(ctx, insert, in.GetOrder())
			return &shop.Receipt{}, err
		},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that started this one
		os.Exit(0)
	}()
	fmt.Fprintf(os.Stdout, "%q\n", listener.Addr().String())
	return server.Serve(listener)
}

// shopper sends requests to a server that is killed again and again.
type shopper struct {
	door  Door
	start func() (*process.Process, Client)

	mu     sync.RWMutex
	server *process.Process
	send   Client
	sent   atomic.Int64
	kills  int
	every  int64
}

// Killed sends calls of one method to a server that is killed with SIGKILL every so many requests,
// each again until it is answered and some once more, by eight clients at once. It returns how many
// orders there are too many, and checks that equal requests have equal answers and that none is
// lost.
func (door Door) Killed(t *testing.T, method string, calls, every int) (doubled, kills int) {
	db := pgtest.New(t)
	pool := db.Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (item text)`)
	require.NoError(t, err)
	s := &shopper{door: door, every: int64(every), start: func() (*process.Process, Client) {
		addrs := make(chan string, 1)
		p, err := process.Start(process.Command{Env: []string{asServer + "=" + db.URL}}, nil, func(addr string) { addrs <- addr })
		require.NoError(t, err)
		select {
		case addr := <-addrs:
			return p, door.Dial(t, addr)
		case <-p.Done():
			require.NoError(t, p.Err(), "the server ended before it served")
			panic("unreachable")
		}
	}}
	s.server, s.send = s.start()
	defer func() { s.server.Kill() }()
	var next atomic.Int64
	var workers sync.WaitGroup
	problems := make(chan error, 8)
	for range cap(problems) {
		workers.Go(func() {
			for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
				if err := s.buy(t.Context(), method, fmt.Sprintf("item-%d", n)); err != nil {
					problems <- err
					return
				}
			}
		})
	}
	workers.Wait()
	select {
	case err := <-problems:
		require.NoError(t, err)
	default:
	}
	var rows, items int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT item) FROM orders`).Scan(&rows, &items))
	require.Equal(t, calls, items, "an answered call is lost")
	return rows - items, s.kills
}

// buy sends a request until it is answered, and one in four once more.
func (s *shopper) buy(ctx context.Context, method, item string) error {
	first, err := s.until(ctx, method, item)
	if err != nil || rand.IntN(4) > 0 {
		return err
	}
	again, err := s.until(ctx, method, item)
	if err == nil && again != first {
		err = errors.New("two answers to " + item)
	}
	return err
}

func (s *shopper) until(ctx context.Context, method, item string) (id string, _ error) {
	for ctx.Err() == nil {
		if s.sent.Add(1)%s.every == 0 {
			s.kill()
		}
		s.mu.RLock()
		send := s.send
		s.mu.RUnlock()
		var answer Answer
		if method == Create {
			order := new(shop.Order)
			answer = send(ctx, method, &shop.CreateRequest{Item: item}, order, item)
			id = order.GetId()
		} else {
			answer = send(ctx, method, &shop.PayRequest{Order: item}, new(shop.Receipt))
		}
		switch code.Code(answer.Status.GetCode()) {
		case code.Code_OK:
			return id, nil
		case code.Code_UNAVAILABLE, code.Code_ABORTED, code.Code_UNKNOWN, code.Code_CANCELLED, code.Code_DEADLINE_EXCEEDED:
		default:
			return "", fmt.Errorf("answered with %v", answer.Status)
		}
	}
	return "", ctx.Err()
}

// kill kills the server, cuts the requests that are on their way, and starts another one before the
// next begins.
func (s *shopper) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Kill()
	s.kills++
	s.server, s.send = s.start()
}
