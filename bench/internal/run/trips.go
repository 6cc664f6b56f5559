package run

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// warmTrips is how many operations come before those that are counted: pgx
// prepares a statement in a trip of its own when it meets it first.
const warmTrips = 20

// countTrips counts round trips at the wire. For Postgres the fault proxy does:
// it reads the protocol, and so takes for one trip what was sent as one
// pipeline, into however many packets that was cut. The median of single
// operations is taken, because a way may do something in the background now and
// then.
func countTrips(ctx context.Context, s *bed.Site, n int, c *Cost) error {
	env := s.Env(1, bed.Line{})
	var proxies []*faultproxy.Proxy
	for _, url := range []*string{&env.Postgres, &env.SecondPostgres} {
		if *url == "" {
			continue
		}
		p, err := faultproxy.New(*url)
		if err != nil {
			return err
		}
		defer p.Close()
		proxies = append(proxies, p)
		*url = p.URL()
	}
	var turns atomic.Int64
	env.DialRedis = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &turnConn{Conn: conn, turns: &turns}, err
	}

	operations, err := keys(s, c.Kind, warmTrips+n)
	if err != nil {
		return err
	}
	return s.Session(ctx, env, func(session *way.Session) error {
		if err := callAll(ctx, session, operations[:warmTrips]); err != nil {
			return err
		}
		var postgres, redis []float64
		for _, keys := range operations[warmTrips:] {
			before := turns.Load()
			for _, p := range proxies {
				p.Reset()
			}
			if err := session.Call(ctx, keys); err != nil {
				return err
			}
			trips := 0
			for _, p := range proxies {
				trips += p.Snapshot().RoundTrips
			}
			postgres = append(postgres, float64(trips))
			redis = append(redis, float64(turns.Load()-before))
		}
		c.RoundTrips = measure.Median(postgres) / float64(s.Way.Batch)
		c.RedisRoundTrips = measure.Median(redis) / float64(s.Way.Batch)
		return nil
	})
}

// A turnConn counts how often the client writes after it has read. Redis is asked
// and answers, one at a time, so a turn is a round trip.
type turnConn struct {
	net.Conn
	turns   *atomic.Int64
	waiting atomic.Bool // for an answer
}

func (c *turnConn) Write(b []byte) (int, error) {
	if c.waiting.CompareAndSwap(false, true) {
		c.turns.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *turnConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.waiting.Store(false)
	return n, err
}
