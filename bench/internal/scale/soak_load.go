package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tooldedup/dedup"
)

// soakLoad makes the calls of a soak and keeps account of them and of the sweeps.
type soakLoad struct {
	t       *tool
	replays float64
	young   time.Duration // a call that is older is not repeated any more

	mu     sync.Mutex
	recent []answered // the young ones of the first calls
	tally  SoakTally
}

// answered is a first call with its answer.
type answered struct {
	key   string
	value ticket
	at    time.Time
}

// SoakTally is the account of a soak: what was answered, and what the database
// holds in the end.
type SoakTally struct {
	Firsts  int64 `json:"first_calls"` // that were answered
	Replays int64 `json:"replays"`
	Errors  int64 `json:"errors"` // of calls and sweeps
	// Some are the first errors.
	Some []string `json:"some_errors,omitempty"`
	// Expired and Forgotten count what the Sweeper dropped.
	Expired   int64 `json:"swept_results"`
	Forgotten int64 `json:"swept_tombstones"`
	// Effects counts the rows that the effects wrote, Keys the distinct keys
	// among them.
	Effects int64 `json:"effects"`
	Keys    int64 `json:"keys_with_effect"`
}

const someErrors = 5

func newSoakLoad(o SoakOptions) *soakLoad {
	// Half of the retention: the answer must not expire under way.
	return &soakLoad{replays: o.Replays, young: o.Retention / 2}
}

// call makes a first call or repeats one, and counts it.
func (l *soakLoad) call(ctx context.Context) error {
	first, repeat := l.pick()
	if !repeat {
		first.key = dedup.NewKey()
	}
	result, err := l.t.call(ctx, first.key)
	switch {
	case err != nil:
	case repeat && !result.Replayed:
		err = errors.New("a call that had been answered was run again")
	case repeat && result.Value != first.value:
		err = fmt.Errorf("a replay answered %+v, and the first call %+v", result.Value, first.value)
	case !repeat && result.Replayed && !result.Recovered:
		err = errors.New("a first call was answered as a replay")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.tally.fail(err)
	case repeat:
		l.tally.Replays++
	default:
		l.tally.Firsts++
		l.recent = append(l.recent, answered{first.key, result.Value, time.Now()})
	}
	return err
}

// pick draws whether to repeat a call, and which.
func (l *soakLoad) pick() (first answered, repeat bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = slices.DeleteFunc(l.recent, func(a answered) bool { return time.Since(a.at) > l.young })
	if len(l.recent) == 0 || rand.Float64() >= l.replays {
		return answered{}, false
	}
	return l.recent[rand.IntN(len(l.recent))], true
}

// failed is how many calls and sweeps have failed so far.
func (l *soakLoad) failed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.Errors
}

func (t *SoakTally) fail(err error) {
	t.Errors++
	if len(t.Some) < someErrors {
		t.Some = append(t.Some, err.Error())
	}
}

// TraceSwept implements [dedup.SweptTracer]. Nobody else hears of a sweep that fails.
func (l *soakLoad) TraceSwept(ctx context.Context, data dedup.SweptData) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Expired += data.Expired
	l.tally.Forgotten += data.Forgotten
	if data.Err != nil && ctx.Err() == nil { // not the end of the soak
		l.tally.fail(fmt.Errorf("a sweep: %w", data.Err))
	}
}

// settle counts the effects once all calls have ended.
func (l *soakLoad) settle(ctx context.Context) (SoakTally, error) {
	err := l.t.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT ref) FROM "+l.t.effects).Scan(&l.tally.Effects, &l.tally.Keys)
	return l.tally, err
}
