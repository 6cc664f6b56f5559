package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
)

// books hold the committed facts of a run and its callers' answers. Trips go one at a time, so all
// of them have a place in one order.
type books struct {
	mix   Mix
	own   *pgxpool.Pool
	key   string
	first int64 // the number of the last run before this one

	mu      sync.Mutex
	calls   []made
	freed   bool  // a Reset returned true
	beside  error // the error of Reset or Sweep
	wrong   []error
	lives   []life
	effects map[int64]int // the callers of the committed runs
}

// life is the life of a record.
type life struct {
	run       int64
	created   time.Time
	due       bool // it may be forgotten, and answers nothing
	from, end int  // the trips that created and removed it
	byReset   bool
}

// made is a call and its answer.
type made struct {
	caller     int
	begin, end int
	told       Told
	err        error
}

func (m made) String() string { return fmt.Sprintf("the call of %c", 'A'+rune(m.caller)) }

const never = math.MaxInt

// open notes the state before the run.
func (b *books) open(ctx context.Context) error {
	var key string
	err := b.own.QueryRow(ctx, `SELECT last_value, setval('orders.tries_0', 1, false), setval('orders.tries_1', 1, false), setval('orders.tries_2', 1, false) FROM orders.runs`).
		Scan(&b.first, nil, nil, nil)
	if err != nil || b.mix.Before == Nothing {
		return err
	}
	age := "0"
	if b.mix.Before == Due {
		age = "1 year"
	}
	print, err := dedup.FingerprintOf(1)
	if err != nil {
		return err
	}
	err = b.own.QueryRow(ctx, `
WITH run AS (SELECT nextval('orders.runs') AS n), done AS (INSERT INTO orders.effects SELECT $3, -1, n FROM run)
INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
SELECT $1, $2, $3, $4, 'done', '{"run":' || n || '}', at, at + interval '1 day', at + interval '2 days'
  FROM run, (SELECT now() - $5::text::interval AS at) moment RETURNING key`, scope, tool, b.key, print[:], age).Scan(&key)
	if err != nil {
		return err
	}
	b.first++
	return b.observe(ctx, schedule.Step{})
}

// call repeats a call until its answer is final.
func (b *books) call(ctx context.Context, c *Caller, job Job, turn *schedule.Turn, way func(context.Context, *Caller, Job) (Told, error)) {
	const tries = 6
	m := made{caller: c.Number}
	for range tries {
		m.begin = turn.Clock()
		m.told, m.err = way(ctx, c, job)
		m.end = turn.Clock()
		if b.mix.Faults == nil || !open(m.err) {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, m)
}

// open reports whether an error leaves the call open, so that the caller calls again.
func open(err error) bool {
	_, own := errors.AsType[ownError](err)
	return own || dedup.IsRetryable(err)
}

func (b *books) reset(ctx context.Context, c *Caller) {
	freed, err := c.D.Reset(ctx, scope, tool, b.key, dedup.ChangeOptions{Reason: "to see what comes of it"})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.freed, b.beside = freed, err
}

func (b *books) sweep(ctx context.Context, c *Caller, bug func(context.Context, *Caller) error) {
	_, err := c.D.Sweep(ctx, nil)
	if err == nil && bug != nil {
		err = bug(ctx, c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beside = err
}

func (b *books) say(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Errorf(format, args...))
}

// observe compares the committed state with the state after the previous trip.
func (b *books) observe(ctx context.Context, s schedule.Step) error {
	var created *time.Time
	var text *string
	var runs []int64
	var by []int
	err := b.own.QueryRow(ctx, `
SELECT r.created_at, r.result, e.runs, e.callers
  FROM (SELECT COALESCE(array_agg(run), '{}') AS runs, COALESCE(array_agg(caller), '{}') AS callers FROM orders.effects WHERE key = $3) e
  LEFT JOIN tool_dedup r ON r.scope = $1 AND r.tool = $2 AND r.key = $3`, scope, tool, b.key).Scan(&created, &text, &runs, &by)
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	effects := map[int64]int{}
	for i, run := range runs {
		effects[run] = by[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.last()
	if last != nil && (created == nil || !created.Equal(last.created)) {
		last.end, last.byReset = s.Number, b.mix.Beside == Reset && s.Caller == len(b.mix.Ways)
		if !last.due && !last.byReset {
			b.say("the record of run %d was deleted, before it may be forgotten and not by a Reset", last.run)
		}
		last = nil
	}
	if last == nil && created != nil {
		l := life{created: *created, from: s.Number, end: never, due: b.mix.Before == Due && s.Number == 0}
		var r result
		if text != nil {
			if err := json.Unmarshal([]byte(*text), &r); err != nil {
				return err
			}
		}
		l.run = r.Run
		b.lives = append(b.lives, l)
		last = &l
		if _, there := effects[l.run]; !there {
			b.say("the record of run %d has no effect", l.run)
		}
	}
	for run := range effects {
		if _, known := b.effects[run]; known {
			continue
		}
		if last == nil || last.run != run || last.from != s.Number {
			b.say("run %d was committed without a record of its own", run)
		}
	}
	b.effects = effects
	return nil
}

// last returns the live record, or nil.
func (b *books) last() *life {
	if n := len(b.lives); n > 0 && b.lives[n-1].end == never {
		return &b.lives[n-1]
	}
	return nil
}

// judge judges the run.
func (b *books) judge(ctx context.Context) error {
	var runs int64
	if err := b.own.QueryRow(ctx, `SELECT last_value FROM orders.runs`).Scan(&runs); err != nil {
		return err
	}
	runs -= b.first
	b.mu.Lock()
	defer b.mu.Unlock()
	committed := int64(len(b.effects))
	if b.mix.Before != Nothing {
		committed--
	}
	if b.mix.Faults == nil && b.mix.Fails == 0 && runs != committed {
		b.say("the effect has run %d times, and %d runs were committed", runs, committed)
	}
	for _, m := range b.calls {
		b.judgeCall(m)
	}
	if want := len(b.mix.Ways); len(b.calls) < want {
		b.say("%d of %d calls have ended", len(b.calls), want)
	}
	freed := slices.ContainsFunc(b.lives, func(l life) bool { return l.byReset })
	if b.freed != freed {
		b.say("Reset has said freed %t, and it was %t", b.freed, freed)
	}
	if b.beside != nil && !(b.mix.Beside == Reset && errors.Is(b.beside, dedup.ErrInFlight)) {
		b.say("%s: %w", b.mix.Beside, b.beside)
	}
	return errors.Join(b.wrong...)
}

// judgeCall judges a call's answer. It must be the run of a record that was there during the call.
// If effects fail, its own run may have failed, and then none of its runs is committed.
func (b *books) judgeCall(m made) {
	if m.err != nil {
		own := slices.Contains(slices.Collect(maps.Values(b.effects)), m.caller)
		switch {
		case b.mix.Fails == 0 || !effectFailed(m.err) || errors.Is(m.err, dedup.ErrOutcomeUnknown):
			b.say("%v has no answer: %w", m, m.err)
		case own:
			b.say("%v has failed, and its effect is committed: %w", m, m.err)
		}
		return
	}
	if by, there := b.effects[m.told.Run]; !m.told.Replayed && there && by != m.caller {
		b.say("%v was answered with run %d as its own, which is another's", m, m.told.Run)
	}
	for _, l := range b.lives {
		if l.run != m.told.Run || l.due {
			continue
		}
		if l.end < m.begin {
			b.say("%v was answered with run %d, whose record was deleted before the call began", m, l.run)
		}
		return
	}
	b.say("%v was answered with run %d, which has no record that counts", m, m.told.Run)
}
