package lab

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// OpenPool opens a pool with so many connections, in an exec mode.
func OpenPool(ctx context.Context, url string, conns int32, mode pgx.QueryExecMode) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.DefaultQueryExecMode = mode
	return pgxpool.NewWithConfig(ctx, config)
}

// Client is one process's client of the library. It shares nothing with other clients.
type Client struct {
	Pool *pgxpool.Pool
	D    *dedup.Deduper
	// Limit bounds the wait for the answer to a COMMIT, as the CommitTimeout of D. 0 is no limit.
	Limit time.Duration
	// DoTx calls BeforeCommit with the answers, and rolls back if it returns an error. Nil means to
	// commit.
	BeforeCommit func([]Told) error

	patient []*Client // see Try
}

// OpenClient opens a client with a pool of its own.
func OpenClient(ctx context.Context, url string, conns int32, mode pgx.QueryExecMode, opts *dedup.Options) (*Client, error) {
	pool, err := OpenPool(ctx, url, conns, mode)
	if err != nil {
		return nil, err
	}
	c, err := NewClient(pool, opts)
	if err != nil {
		pool.Close()
	}
	return c, err
}

// Close closes the client's pool.
func (c *Client) Close() error {
	c.Pool.Close()
	return nil
}

// A try's limit is raised so often, each time by this factor and after so many tries.
const raises, raisedTo, raisedAfter = 3, 4, 4

// NewClient makes a client of a pool.
func NewClient(pool *pgxpool.Pool, opts *dedup.Options) (c *Client, err error) {
	if opts == nil {
		opts = &dedup.Options{}
	}
	c = &Client{Pool: pool, Limit: opts.CommitTimeout}
	if c.D, err = dedup.New(pool, opts); err != nil || c.Limit == 0 {
		return c, err
	}
	longer := *opts
	for range raises {
		longer.CommitTimeout *= raisedTo
		d, err := dedup.New(pool, &longer)
		if err != nil {
			return nil, err
		}
		c.patient = append(c.patient, &Client{Pool: pool, D: d, Limit: longer.CommitTimeout})
	}
	return c, nil
}

// Try returns the client for try n of a call, from 0. The first limits are short because answers
// are swallowed. Later ones are longer for a slow machine.
func (c *Client) Try(n int) *Client {
	raised := min(n/raisedAfter, len(c.patient))
	if raised == 0 {
		return c
	}
	return c.patient[raised-1]
}

// Effect is the statement of an effect. It takes the key and answers with the number of the run.
const Effect = `INSERT INTO public.effects (key, run) VALUES ($1, nextval('public.runs')) RETURNING run`

// Answer is the answer of an effect, as a row and as a result of DoStatement.
type Answer struct {
	Run int64 `json:"run"`
}

// Run is the effect of a key: see [Effect].
func Run(key string) dedup.Effect[Answer] { return NewJob(key).run }

// Naively is a Caller by [Plain].
func Naively(ctx context.Context, c *Client, key string) (int64, error) {
	return By(Plain)(ctx, c, key)
}

// InTx runs do in a plain transaction and gives it up after the client's limit. The wait for a
// connection does not count: pgx keeps the place of an abandoned connection for up to 15 seconds.
func (c *Client) InTx(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return c.Pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		ctx, cancel := c.limited(ctx)
		defer cancel()
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return do(ctx, tx) })
	})
}

func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.Limit)
}

// Call is a call of the effect for a key.
func Call(key string) dedup.Call {
	return dedup.Call{Scope: "chaos", Tool: "effect", Key: key, Args: key}
}

// Retry is a policy of short pauses, at most longest.
func Retry(longest time.Duration) dedup.RetryPolicy {
	return dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: longest}
}
