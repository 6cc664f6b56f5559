package lab

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// Modes are all in which pgx can send statements.
var Modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// OpenPool opens a pool of so many connections in an exec mode.
func OpenPool(ctx context.Context, url string, conns int32, mode pgx.QueryExecMode) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.DefaultQueryExecMode = mode
	return pgxpool.NewWithConfig(ctx, config)
}

// Client is what one process has of the library. It knows nothing of other clients.
type Client struct {
	Pool *pgxpool.Pool
	D    *dedup.Deduper
	// Limit bounds the wait for the answer to a COMMIT; 0 is no limit. It is the CommitTimeout of D.
	Limit time.Duration
	// BeforeCommit is asked by DoTx with the answers. An error rolls back; nil means to commit always.
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

// The limit of a try is raised so often, each time to so many times what it was and after so many tries.
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

// Try returns the client for try n of a call, from 0. Later tries wait longer for the answer to a COMMIT:
// the first limits are short, because answers are swallowed, and a slow machine needs longer ones.
func (c *Client) Try(n int) *Client {
	raised := min(n/raisedAfter, len(c.patient))
	if raised == 0 {
		return c
	}
	return c.patient[raised-1]
}

// Effect is the statement of an effect: it takes the key, and its answer is the
// number of the run that was committed.
const Effect = `INSERT INTO public.effects (key, run) VALUES ($1, nextval('public.runs')) RETURNING run`

// Answer is what an effect answers, as a row and so as DoStatement's result.
type Answer struct {
	Run int64 `json:"run"`
}

// Run is an effect for a key: see [Effect].
func Run(key string) dedup.Effect[Answer] { return NewJob(key).run }

// Naively is a Caller by [Plain].
func Naively(ctx context.Context, c *Client, key string) (int64, error) {
	return By(Plain)(ctx, c, key)
}

// InTx runs do in a plain transaction, which is given up after the client's limit. The wait for a connection
// does not count: pgx keeps the place of a connection that was given up for as long as 15 seconds.
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

// Retry is a policy of short pauses, the longest of which is so long.
func Retry(longest time.Duration) dedup.RetryPolicy {
	return dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: longest}
}
