package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	tally  soakTally
}

// answered is a first call with its answer.
type answered struct {
	key   string
	value ticket
	at    time.Time
}

// soakTally is the account of a soak: what was answered, and what the database
// holds in the end.
type soakTally struct {
	firsts, replays int64    // that were answered
	errors          int64    // of calls and sweeps
	some            []string // the first errors
	// expired and forgotten count what the Sweeper dropped.
	expired, forgotten int64
	// effects counts the rows that the effects wrote, keys the distinct keys among them.
	effects, keys int64
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
	case repeat && errors.Is(err, dedup.ErrExpired) && time.Since(first.at) > l.young: // on a crowded machine
		return nil
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
		l.tally.replays++
	default:
		l.tally.firsts++
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
	return l.tally.errors
}

func (t *soakTally) fail(err error) {
	t.errors++
	if len(t.some) < someErrors {
		t.some = append(t.some, err.Error())
	}
}

// TraceSwept implements [dedup.SweptTracer]. Nobody else hears of a sweep that fails.
func (l *soakLoad) TraceSwept(ctx context.Context, data dedup.SweptData) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.expired += data.Expired
	l.tally.forgotten += data.Forgotten
	if data.Err != nil && ctx.Err() == nil { // not the end of the soak
		l.tally.fail(fmt.Errorf("a sweep: %w", data.Err))
	}
}

// settle counts the effects once all calls have ended.
func (l *soakLoad) settle(ctx context.Context) (soakTally, error) {
	err := l.t.pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT ref) FROM "+l.t.effects).Scan(&l.tally.effects, &l.tally.keys)
	return l.tally, err
}

func (t *soakTally) write(w io.Writer) {
	fmt.Fprintf(w, "\n%d first calls, %d replays, %d errors; %d effects of %d keys; %d results and %d tombstones swept\n",
		t.firsts, t.replays, t.errors, t.effects, t.keys, t.expired, t.forgotten)
	for _, text := range t.some {
		fmt.Fprintf(w, "  %s\n", text)
	}
}

// verdict is an error where calls failed or effects are wrong.
func (t *soakTally) verdict() error {
	var errs []error
	if doubled := t.effects - t.keys; doubled > 0 {
		errs = append(errs, fmt.Errorf("%d effects were doubled", doubled))
	}
	if lost := t.firsts - t.keys; lost > 0 {
		errs = append(errs, fmt.Errorf("%d calls were answered and have no effect", lost))
	}
	if t.errors > 0 {
		errs = append(errs, fmt.Errorf("%d calls or sweeps failed, the first with: %s", t.errors, t.some[0]))
	}
	return errors.Join(errs...)
}
