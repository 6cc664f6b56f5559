package external_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
)

// Payment is a record of the log.
type Payment struct {
	ID    string // from the producer
	Cents int
}

// Log stands for a partition of Kafka and the offset that a consumer has stored.
type Log struct {
	records []Payment
	offset  int
	taken   bool // the next commit fails, because the partition has another consumer
}

func (l *Log) Poll(most int) (records []Payment, next int) {
	next = min(l.offset+most, len(l.records))
	return l.records[l.offset:next], next
}

func (l *Log) Commit(next int) error {
	if l.taken {
		l.taken = false
		return errors.New("the partition was taken away")
	}
	l.offset = next
	return nil
}

type Entry struct{ ID int }

// consume runs one batch and stores the offset after it. An interrupted batch comes again, and its
// finished records are replayed. Records of one batch have no order.
func consume(ctx context.Context, d *dedup.Deduper, log *Log) error {
	records, next := log.Poll(100)
	var calls []dedup.StatementCall
	for _, r := range records {
		// Without a producer's id, use the topic, the partition and the offset.
		key, err := dedup.KeyFromIntent("event", "payments", r.ID)
		if err != nil {
			return err
		}
		calls = append(calls, dedup.StatementCall{
			Call: dedup.Call{Scope: "payments", Tool: "book_entry", Key: key, Args: r, Retention: dedup.Retention{Result: 7 * 24 * time.Hour}},
			Statement: dedup.Statement{
				SQL:     `INSERT INTO entries (cents) VALUES ($1) RETURNING id`,
				Args:    []any{r.Cents},
				OnError: refuseInvalid,
			},
		})
	}
	for out := range dedup.DoBatch[Entry](ctx, d, slices.Values(calls), nil) {
		if out.Err != nil && !errors.Is(out.Err, dedup.ErrRefused) {
			return out.Err
		}
	}
	return log.Commit(next)
}

// refuseInvalid records a refusal of a record that no retry makes valid. Otherwise one such record
// would stop the log.
func refuseInvalid(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23514" { // check_violation
		return dedup.Final(errors.New("the amount is not valid"))
	}
	return err
}

// A consumer of a log that delivers at least once. Each record takes effect once.
func Example_consumer() {
	ctx := context.Background()
	pool, drop := exampleDatabase(`CREATE TABLE entries (id int GENERATED ALWAYS AS IDENTITY, cents int CHECK (cents <> 0))`)
	defer drop()
	d, err := dedup.New(pool, nil)
	exampleMust(err)

	log := &Log{records: []Payment{{"p1", 500}, {"p2", 0}, {"p3", 700}}, taken: true}
	for range 2 {
		err := consume(ctx, d, log)
		var entries, cents int
		exampleMust(pool.QueryRow(ctx, `SELECT count(*), sum(cents) FROM entries`).Scan(&entries, &cents))
		fmt.Println("offset:", log.offset, "entries:", entries, "cents:", cents, err)
	}

	// Output:
	// offset: 0 entries: 2 cents: 1200 the partition was taken away
	// offset: 3 entries: 2 cents: 1200 <nil>
}
