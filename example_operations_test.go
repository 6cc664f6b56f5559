package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// An effect that sends COMMIT leaves a write without its record. The identity is blocked, so that
// no retry repeats the write, until an operator has repaired it and frees the identity with a
// reason.
func ExampleDeduper_Reset() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE charges (cents int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	call := dedup.Call{Scope: "acme", Tool: "charge", Key: "order-117"}

	commits := func(ctx context.Context, tx pgx.Tx) (string, error) {
		if _, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`); err != nil {
			return "", err
		}
		_, err := tx.Conn().Exec(ctx, "COMMIT") // never do this
		return "charged", err
	}
	for range 2 {
		_, err = dedup.Do(ctx, d, call, commits)
		fmt.Println("broken:", errors.Is(err, dedup.ErrBroken), "charges:", exampleCount(pool, "charges"))
	}

	if _, err := pool.Exec(ctx, `DELETE FROM charges`); err != nil {
		log.Fatal(err)
	}
	freed, err := d.Reset(ctx, "acme", "charge", "order-117", dedup.ChangeOptions{
		Reason: "charge of broken call deleted", Actor: "ada@example.com",
	})
	fmt.Println("freed:", freed, err)

	result, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`)
		return "charged", err
	})
	fmt.Println(result.Value, err, "charges:", exampleCount(pool, "charges"))

	// Output:
	// broken: true charges: 1
	// broken: true charges: 1
	// freed: true <nil>
	// charged <nil> charges: 1
}

// archive stores swept records elsewhere, in the sweep's transaction.
func archive(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error {
	for _, record := range batch {
		if record.Result == nil {
			continue // it was archived when its result expired
		}
		_, err := tx.Exec(ctx, `INSERT INTO answered (scope, tool, key, result, at) VALUES ($1, $2, $3, $4, $5)`,
			record.Scope, record.Tool, record.Key, string(record.Result), record.CreatedAt)
		if err != nil {
			return err
		}
	}
	return nil
}

// Sweep drops results that have expired, which leaves tombstones, and deletes tombstones whose time
// is over. Before that, the hook can keep them elsewhere.
func ExampleDeduper_Sweep() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE answered (scope text, tool text, key text, result text, at timestamptz)`)
	defer done()
	d, err := dedup.New(pool, &dedup.Options{
		Retention: dedup.Retention{Result: 24 * time.Hour, Tombstone: 7 * 24 * time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"k1", "k2", "k3"} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "pay", Key: key},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "paid " + key, nil })
		if err != nil {
			log.Fatal(err)
		}
	}

	sweep := func(when string) {
		swept, err := d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 2, Archive: archive})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %d expired, %d forgotten, %d batches; %d records, %d archived\n", when,
			swept.Expired, swept.Forgotten, swept.Batches, exampleCount(pool, "tool_dedup"), exampleCount(pool, "answered"))
	}
	sweep("at once")
	exampleTimePasses(pool, "2 days")
	sweep("after 2 days")
	exampleTimePasses(pool, "7 days")
	sweep("after 9 days")

	// Output:
	// at once: 0 expired, 0 forgotten, 0 batches; 3 records, 0 archived
	// after 2 days: 3 expired, 0 forgotten, 2 batches; 3 records, 3 archived
	// after 9 days: 0 expired, 3 forgotten, 2 batches; 0 records, 3 archived
}

// sweepWatcher is a tracer of sweeps. The methods that it does not need are those of MultiTracer().
type sweepWatcher struct {
	dedup.Tracer
	swept chan dedup.SweptData
}

func (w sweepWatcher) TraceEvent(_ context.Context, event dedup.Event) {
	if swept, ok := event.(dedup.SweptData); ok {
		w.swept <- swept
	}
}

// With RecordStats a Sweeper appends what its process has counted to tool_dedup_stat, which `dedup
// stats` reads. The last counts are written when it ends.
func ExampleSweeper_recordStats() {
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	sweeper, err := dedup.NewSweeper(d, &dedup.SweeperOptions{RecordStats: true})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	for range 3 {
		_, err = dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "refund", Key: "order-117"},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "refunded", nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	stop()
	_ = sweeper.Run(ctx)
	fmt.Println("executed:", exampleCount(pool, "tool_dedup_stat WHERE outcome = 'executed' AND calls = 1"))
	fmt.Println("replayed:", exampleCount(pool, "tool_dedup_stat WHERE outcome = 'replayed' AND calls = 2"))

	// Output:
	// executed: 1
	// replayed: 1
}

// A Sweeper sweeps on an interval until its context ends. Every instance of a service may run one:
// while one sweeps, the others skip.
func ExampleSweeper() {
	pool, done := exampleDatabase()
	defer done()
	watcher := sweepWatcher{Tracer: dedup.MultiTracer(), swept: make(chan dedup.SweptData, 1)}
	d, err := dedup.New(pool, &dedup.Options{Tracer: watcher})
	if err != nil {
		log.Fatal(err)
	}
	sweeper, err := dedup.NewSweeper(d, &dedup.SweeperOptions{Interval: 10 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sweeper.Run(ctx) }()

	data := <-watcher.swept // the first sweep runs at once
	fmt.Println("skipped:", data.Skipped, "error:", data.Err)
	stop()
	fmt.Println("ended:", errors.Is(<-ended, context.Canceled))

	// Output:
	// skipped: false error: <nil>
	// ended: true
}

// NewSlogTracer writes what happens to calls to a logger. Alert on the rate of
// tool_call_deduplicated, and look at what is logged at Warn or above.
func ExampleNewSlogTracer() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Value.Kind() == slog.KindTime || strings.HasSuffix(attr.Key, "_seconds") {
				return slog.Attr{} // different in each run
			}
			return attr
		},
	}))
	d, err := dedup.New(pool, &dedup.Options{Tracer: dedup.NewSlogTracer(logger)})
	if err != nil {
		log.Fatal(err)
	}

	ctx = dedup.WithAttrs(ctx, slog.String("agent", "billing")) // on every line of its calls
	for _, cents := range []int{500, 500, 700} {
		_, _ = dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "refund", Key: "order-117", Args: map[string]int{"cents": cents},
		}, func(ctx context.Context, tx pgx.Tx) (string, error) { return "refunded", nil })
	}
	if _, err := d.Reset(ctx, "acme", "refund", "order-117", dedup.ChangeOptions{Reason: "refunded by hand"}); err != nil {
		log.Fatal(err)
	}

	// Output:
	// level=DEBUG msg=tool_call_executed tool=refund scope=acme key_hash=d860c2f71020f5e9 agent=billing attempts=1 refused=false
	// level=INFO msg=tool_call_deduplicated tool=refund scope=acme key_hash=d860c2f71020f5e9 agent=billing recovered=false refused=false
	// level=WARN msg=tool_call_key_reused tool=refund scope=acme key_hash=d860c2f71020f5e9 agent=billing changed=[cents]
	// level=WARN msg=tool_call_reset tool=refund scope=acme key_hash=d860c2f71020f5e9 agent=billing reason="refunded by hand" actor="" freed=true audited=true
}

// A tenant leaves: its answers are erased, and a late retry still runs nothing.
func ExampleDeduper_Erase() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	send := func(scope string) error {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: scope, Tool: "send_invoice", Key: "2026-117"},
			func(ctx context.Context, tx pgx.Tx) (string, error) { return "sent to ada@example.com", nil })
		return err
	}
	if err := errors.Join(send("acme"), send("zeta")); err != nil {
		log.Fatal(err)
	}

	erased, err := d.Erase(ctx, "acme", "", dedup.ChangeOptions{Reason: "contract ended", Actor: "ada@example.com"})
	fmt.Println("records:", erased.Records, err)
	fmt.Println("acme:", errors.Is(send("acme"), dedup.ErrExpired))
	fmt.Println("zeta:", send("zeta"))

	// Output:
	// records: 1 <nil>
	// acme: true
	// zeta: <nil>
}

// metrics is a tracer that counts calls.
type metrics struct{ executed, replayed atomic.Int64 }

func (m *metrics) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context {
	return ctx
}

func (m *metrics) TraceCallEnd(_ context.Context, data dedup.CallEndData) {
	switch data.Outcome {
	case dedup.OutcomeExecuted:
		m.executed.Add(1)
	case dedup.OutcomeReplayed:
		m.replayed.Add(1)
	}
}

func (*metrics) TraceEvent(context.Context, dedup.Event) {}

// MultiTracer joins tracers, such as a log and counters.
func ExampleMultiTracer() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	var counts metrics
	d, err := dedup.New(pool, &dedup.Options{
		Tracer: dedup.MultiTracer(&counts, dedup.NewSlogTracer(slog.New(slog.DiscardHandler))),
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

// A Deduper counts its calls by tool and outcome, and knows those that are on their way.
func ExampleDeduper_Stats() {
	ctx := context.Background()
	pool, done := exampleDatabase(`CREATE TABLE charges (cents int)`)
	defer done()
	d, err := dedup.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"order-1", "order-2", "order-1"} {
		_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "charge", Key: key}, func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, `INSERT INTO charges VALUES (9900)`)
			return 9900, err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	stats := d.Stats()
	for _, of := range stats.Calls {
		fmt.Println(of.Tool, of.Outcome, of.Calls)
	}
	fmt.Println("in flight:", len(stats.InFlight))

	// Output:
	// charge executed 2
	// charge replayed 1
	// in flight: 0
}
