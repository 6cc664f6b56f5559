package rpctest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// lostCommit: the answer to COMMIT is lost and the record found. The request that ran is told its
// own response, unmarked; one that cannot look is told to come again.
func (door Door) lostCommit(t *testing.T) {
	var proxy *faultproxy.Proxy
	s := door.open(t, rpc.Options{}, nil, func(config *pgxpool.Config) {
		var err error
		proxy, err = faultproxy.New(config.ConnString())
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		parsed, err := pgxpool.ParseConfig(proxy.URL())
		require.NoError(t, err)
		config.ConnConfig = parsed.ConnConfig
	})
	_, answer := s.order(t, lamp(), "warm")
	require.Nil(t, answer.Status)
	fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
	first, answer := s.order(t, lamp(), "k1")
	<-fault.Applied()
	require.Nil(t, answer.Status)
	require.False(t, answer.Replayed)
	again, answer := s.order(t, lamp(), "k1")
	require.True(t, answer.Replayed)
	require.Equal(t, first.String(), again.String())
	require.Equal(t, 2, s.rows(t))

	proxy.Refuse(true)
	proxy.CutAll()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	down := s.send(ctx, Create, lamp(), new(shop.Order), "k2")
	require.Contains(t, []int32{int32(code.Code_UNAVAILABLE), int32(code.Code_DEADLINE_EXCEEDED)}, down.Status.GetCode())
	proxy.Refuse(false)
}

// twinsAnswer: a COMMIT never reaches the server, and a twin runs in its place. The request that
// lost the COMMIT is told the twin's response, marked, and nothing of its own run.
func (door Door) twinsAnswer(t *testing.T) {
	db := pgtest.New(t)
	proxy, err := faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	direct := db.Pool(t)
	_, err = direct.Exec(t.Context(), `CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY, item text)`)
	require.NoError(t, err)
	proxied, err := pgxpool.New(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(proxied.Close)
	server := func(pool *pgxpool.Pool, name string) Client {
		d, err := dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{MaxAttempts: 10_000}})
		require.NoError(t, err)
		return door.serve(t, d, rpc.Options{Methods: []string{Create}, Scope: func(context.Context) (string, error) { return "acme", nil }}, Service{
			Create: func(ctx context.Context, _ *shop.CreateRequest) (*shop.Order, error) {
				tx, _ := door.Tx(ctx)
				door.Mark(ctx, name)
				_, err := tx.Exec(ctx, `INSERT INTO orders (item) VALUES ($1)`, name)
				return &shop.Order{Id: name}, err
			},
		})
	}
	loses, twin := server(proxied, "loses"), server(direct, "twin")
	require.Nil(t, loses(t.Context(), Create, lamp(), new(shop.Order), "warm").Status)
	proxy.Refuse(true) // another connection, for another attempt, waits until the twin has run
	fault := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Dropped, Where: faultproxy.AtCommit})
	lost := new(shop.Order)
	answered := make(chan Answer, 1)
	go func() { answered <- loses(t.Context(), Create, lamp(), lost, "k1") }()
	<-fault.Applied()
	answer := twin(t.Context(), Create, lamp(), new(shop.Order), "k1")
	require.Nil(t, answer.Status)
	require.Equal(t, []string{"twin"}, answer.Runs)
	proxy.Refuse(false)
	answer = <-answered
	require.Nil(t, answer.Status)
	require.Equal(t, "twin", lost.GetId())
	require.True(t, answer.Replayed)
	require.Empty(t, answer.Runs)
}
