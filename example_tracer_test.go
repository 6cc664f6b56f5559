package dedup_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// metrics is a tracer: it implements those of the interfaces that it needs.
type metrics struct{ executed, replayed atomic.Int64 }

func (m *metrics) TraceExecuted(context.Context, dedup.ExecutedData) { m.executed.Add(1) }
func (m *metrics) TraceReplayed(context.Context, dedup.ReplayedData) { m.replayed.Add(1) }

var (
	_ dedup.ExecutedTracer = (*metrics)(nil)
	_ dedup.ReplayedTracer = (*metrics)(nil)
)

// MultiTracer joins tracers, such as a log and counters.
func ExampleMultiTracer() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	var counts metrics
	d, err := dedup.New(pool, &dedup.Options{
		Tracer: dedup.MultiTracer(&counts, dedup.NewSlogTracer(slog.New(slog.DiscardHandler), nil)),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"k1", "k1", "k2", "k1"} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: key},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid", nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("executed:", counts.executed.Load(), "replayed:", counts.replayed.Load())

	// Output:
	// executed: 2 replayed: 2
}
