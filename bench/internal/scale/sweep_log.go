package scale

import (
	"context"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup"
)

// sweepLog is the tracer of a soak's Sweeper. Nobody else hears of a sweep that
// fails.
type sweepLog struct {
	mu     sync.Mutex
	swept  dedup.SweepResult // all in all
	failed []string
}

// TraceSwept implements [dedup.SweptTracer].
func (l *sweepLog) TraceSwept(ctx context.Context, data dedup.SweptData) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swept.Expired += data.Expired
	l.swept.Forgotten += data.Forgotten
	if data.Err != nil && ctx.Err() == nil { // not the end of the soak
		l.failed = append(l.failed, fmt.Sprintf("a sweep: %v", data.Err))
	}
}

// addTo adds the sweeps to the account.
func (l *sweepLog) addTo(tally *SoakTally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tally.Expired, tally.Forgotten = l.swept.Expired, l.swept.Forgotten
	tally.Errors += int64(len(l.failed))
	tally.Some = append(tally.Some, l.failed[:min(len(l.failed), someErrors)]...)
}
