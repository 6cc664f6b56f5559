package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// soakLoad makes the calls of a soak and keeps account of them.
type soakLoad struct {
	t       *tool
	replays float64
	young   time.Duration // a call that is older is not repeated any more

	mu     sync.Mutex
	recent []answered // a ring
	next   int        // where the ring is written next
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

const (
	recentCalls = 1024 // that may be repeated
	someErrors  = 5
)

func newSoakLoad(t *tool, o SoakOptions) *soakLoad {
	// Half of the retention: the answer must not expire under way.
	return &soakLoad{t: t, replays: o.Replays, young: o.Retention / 2, recent: make([]answered, recentCalls)}
}

// besides runs load and Sweeper while work is done.
func (l *soakLoad) besides(ctx context.Context, o SoakOptions, sweeper *dedup.Sweeper, work func(*ear) error) error {
	sweeping, stopSweeping := context.WithCancel(ctx)
	defer stopSweeping()
	stop := make(chan struct{})
	var heard ear
	var running sync.WaitGroup
	running.Go(func() { _ = sweeper.Run(sweeping) }) // its sweeps' errors go to sweepLog
	running.Go(func() { pace{rate: o.Rate, clients: o.Clients}.run(ctx, stop, l.call, heard.hear) })
	err := work(&heard)
	close(stop)
	stopSweeping()
	running.Wait()
	return err
}

// call makes a first call or repeats one, and books it.
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
	l.book(repeat, answered{first.key, result.Value, time.Now()}, err)
	return err
}

// pick draws whether to repeat a call, and which.
func (l *soakLoad) pick() (answered, bool) {
	if rand.Float64() >= l.replays {
		return answered{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	back := func(n int) answered { return l.recent[(l.next-n+len(l.recent))%len(l.recent)] }
	first := back(1 + rand.IntN(len(l.recent)))
	if first.key == "" || time.Since(first.at) > l.young {
		first = back(1) // the youngest
	}
	return first, first.key != "" && time.Since(first.at) <= l.young
}

func (l *soakLoad) book(repeat bool, call answered, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.tally.Errors++
		if len(l.tally.Some) < someErrors {
			l.tally.Some = append(l.tally.Some, err.Error())
		}
	case repeat:
		l.tally.Replays++
	default:
		l.tally.Firsts++
		l.recent[l.next] = call
		l.next = (l.next + 1) % len(l.recent)
	}
}

// settle counts the effects once all calls have ended.
func (l *soakLoad) settle(ctx context.Context, pool *pgxpool.Pool) (SoakTally, error) {
	err := pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT ref) FROM "+pgx.Identifier{soakSchema, "effects"}.Sanitize()).
		Scan(&l.tally.Effects, &l.tally.Keys)
	return l.tally, err
}
