package riverdedup_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/riverdedup"
)

type Mail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

type Sent struct {
	ID string `json:"id"`
}

// An outbox: the order, its mail and the mail's job are one transaction. A request that comes twice
// sends one mail.
func Example() {
	ctx := context.Background()
	pool, drop := exampleDatabase(`CREATE TABLE orders (id int PRIMARY KEY)`)
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)

	worker := &riverdedup.Worker{}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	worker.Tools, err = external.New(d, &external.Options{Enqueue: riverdedup.Enqueue(client)})
	must(err)
	mails, err := external.Add(worker.Tools, external.Tool[Mail, Sent]{
		Name: "send_mail", KeyKept: external.Forever, Ref: func(s Sent) string { return s.ID },
		Perform: func(ctx context.Context, a external.Attempt, m Mail) (Sent, error) {
			fmt.Println("sending:", m.Subject) // to a provider that takes a.Key
			return Sent{ID: "msg_1"}, nil
		},
	})
	must(err)
	completed, unsubscribe := client.Subscribe(river.EventKindJobCompleted)
	defer unsubscribe()
	must(client.Start(ctx))

	for range 2 { // the request, and its retry
		must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES (117) ON CONFLICT DO NOTHING`); err != nil {
				return err
			}
			_, err := mails.Accept(ctx, tx, dedup.Call{Scope: "acme", Key: "order 117"}, Mail{To: "ada@mail.example", Subject: "your order"})
			return err
		}))
	}
	<-completed
	status, err := worker.Tools.Status(ctx, "acme", "send_mail", "order 117")
	op := status.Operation
	must(err)
	fmt.Println(op.State, op.Ref)
	must(client.Stop(ctx))
	must(worker.Tools.Close(ctx))

	// Output:
	// sending: your order
	// done msg_1
}

type AddPointsArgs struct {
	Customer string `json:"customer"`
	Points   int    `json:"points"`
}

func (AddPointsArgs) Kind() string { return "add_points" }

type AddPointsWorker struct {
	river.WorkerDefaults[AddPointsArgs]
	d *dedup.Deduper
}

func (w *AddPointsWorker) Work(ctx context.Context, job *river.Job[AddPointsArgs]) error {
	return riverdedup.Do(ctx, w.d, job.Args.Customer, job, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE customers SET points = points + $1 WHERE name = $2`, job.Args.Points, job.Args.Customer)
		return err
	})
}

// A job that takes effect once, even if River runs it again: its writes, its record and its
// completion are one transaction.
func ExampleDo() {
	ctx := context.Background()
	pool, drop := exampleDatabase(`CREATE TABLE customers (name text, points int)`, `INSERT INTO customers VALUES ('acme', 10)`)
	defer drop()
	d, err := dedup.New(pool, nil)
	must(err)

	workers := river.NewWorkers()
	river.AddWorker(workers, &AddPointsWorker{d: d})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	completed, unsubscribe := client.Subscribe(river.EventKindJobCompleted)
	defer unsubscribe()
	must(client.Start(ctx))
	_, err = client.Insert(ctx, AddPointsArgs{Customer: "acme", Points: 5}, nil)
	must(err)
	job := (<-completed).Job
	must(client.Stop(ctx))

	var points int
	must(pool.QueryRow(ctx, `SELECT points FROM customers`).Scan(&points))
	fmt.Println("job", job.State, "points", points)

	// Output:
	// job completed points 15
}

func exampleDatabase(setup ...string) (pool *pgxpool.Pool, drop func()) {
	pool, drop = pgtest.Example(setup...)
	must(migrateRiver(context.Background(), pool))
	return pool, drop
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
