package riverdedup_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/riverdedup"
)

// lease is so long that it never ends on a busy machine.
const lease = 10 * time.Second

// process is a client of River with Tools that send mails.
type process struct {
	pool   *pgxpool.Pool
	d      *dedup.Deduper
	client *river.Client[pgx.Tx]
	tools  *external.Tools
	mail   *external.Handle[mail, sent]
	letter *external.Handle[mail, sent]
}

// newProcess starts up as a program does. config overrides the tests' defaults.
func newProcess(pool *pgxpool.Pool, provider string, opts *dedup.Options, config *river.Config) (p *process, err error) {
	p = &process{pool: pool}
	if p.d, err = dedup.New(pool, opts); err != nil {
		return nil, err
	}
	worker := &riverdedup.Worker{}
	if config.Workers == nil {
		config.Workers = river.NewWorkers()
	}
	if err := river.AddWorkerSafely(config.Workers, worker); err != nil {
		return nil, err
	}
	if config.Queues == nil {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}}
	}
	config.Logger, config.TestOnly = slog.New(slog.DiscardHandler), true
	config.FetchCooldown, config.FetchPollInterval = 10*time.Millisecond, 100*time.Millisecond
	config.RetryPolicy = soon{}
	if p.client, err = river.NewClient(riverpgxv5.New(pool), config); err != nil {
		return nil, err
	}
	if worker.Tools, err = external.New(p.d, &external.Options{Lease: lease, Enqueue: riverdedup.Enqueue(p.client)}); err != nil {
		return nil, err
	}
	p.tools = worker.Tools
	if p.mail, err = external.Add(p.tools, mailTool("send_mail", provider)); err != nil {
		return nil, err
	}
	p.letter, err = external.Add(p.tools, mailTool("send_letter", provider))
	return p, err
}

// soon retries at once. River's own policy doubles its pauses, beginning with a second.
type soon struct{}

func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// newDatabase returns a database with the tables of River and of this library.
func newDatabase(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.MaxConns = 12 })
	require.NoError(t, migrateRiver(t.Context(), pool))
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY)`)
	require.NoError(t, err)
	return pool
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// start starts a process, and stops it when the test ends.
func start(t *testing.T, pool *pgxpool.Pool, provider string, config *river.Config) (*process, *events) {
	t.Helper()
	p, err := newProcess(pool, provider, nil, config)
	require.NoError(t, err)
	ch, cancel := p.client.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled, river.EventKindJobFailed, river.EventKindJobSnoozed)
	t.Cleanup(cancel)
	require.NoError(t, p.client.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, p.client.StopAndCancel(ctx))
		require.NoError(t, p.tools.Close(ctx))
	})
	return p, &events{t, ch}
}

// events are River's events of its jobs.
type events struct {
	t  *testing.T
	ch <-chan *river.Event
}

// next waits for the next event.
func (e *events) next() *river.Event {
	e.t.Helper()
	select {
	case event := <-e.ch:
		return event
	case <-e.t.Context().Done():
	}
	require.Fail(e.t, "no event")
	return nil
}

// until waits for an event of a kind.
func (e *events) until(kind river.EventKind) *rivertype.JobRow {
	e.t.Helper()
	for {
		if event := e.next(); event.Kind == kind {
			return event.Job
		}
	}
}

// order writes an order and its mail in one transaction, and rolls back with fails if it is set.
func (p *process) order(ctx context.Context, order int, fails error) (op external.Operation, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if op, err = p.place(ctx, tx, p.mail, order); err != nil {
			return err
		}
		return fails
	})
	return op, err
}

func (p *process) place(ctx context.Context, tx pgx.Tx, by *external.Handle[mail, sent], order int) (external.Operation, error) {
	if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1) ON CONFLICT DO NOTHING`, order); err != nil {
		return external.Operation{}, err
	}
	return by.Accept(ctx, tx, callOf(order), mail{Order: order})
}

func callOf(order int) dedup.Call {
	return dedup.Call{Scope: "acme", Key: fmt.Sprint("order ", order)}
}

// count returns the count that a query selects.
func count(t *testing.T, pool *pgxpool.Pool, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

func (p *process) lookup(t *testing.T, tool string, order int) external.Operation {
	t.Helper()
	status, err := p.tools.Status(t.Context(), "acme", tool, callOf(order).Key)
	require.NoError(t, err)
	return status.Operation
}
