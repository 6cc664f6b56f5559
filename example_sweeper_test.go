package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tooldedup/dedup"
)

// sweepWatcher is a tracer that is told of sweeps.
type sweepWatcher struct{ swept chan dedup.SweptData }

func (w sweepWatcher) TraceSwept(_ context.Context, data dedup.SweptData) { w.swept <- data }

// A Sweeper sweeps on an interval until its context ends. Every instance of a
// service may run one: while one sweeps, the others skip.
func ExampleSweeper() {
	pool, done := exampleDatabase()
	defer done()
	watcher := sweepWatcher{swept: make(chan dedup.SweptData, 1)}
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
