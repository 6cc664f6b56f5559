package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// Answers are erased while calls of the same scope and of another one run, beside sweeps, resets
// and a second Erase.
func TestEraseUnderLoad(t *testing.T) {
	t.Parallel()
	bothOrders(t, func(t *testing.T, p profile) { eraseUnderLoad(t, p, 60) })
}

func TestLongEraseUnderLoad(t *testing.T) {
	t.Parallel()
	for _, p := range []profile{
		{order: lockFirst, isolation: pgx.ReadCommitted}, {order: claimFirst, isolation: pgx.ReadCommitted},
		{order: lockFirst, isolation: pgx.Serializable}, {isolation: pgx.ReadCommitted, engine: onPlayedCitus},
	} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			eraseUnderLoad(t, p, 1000)
		})
	}
}

const (
	eraseCallers = 8
	eraseKeys    = 12 // of each tool in each scope
)

// eraseLoad is what the callers and operators of a run did.
type eraseLoad struct {
	*fixture
	mu      sync.Mutex
	answers []eraseAnswer
	freed   map[string]int       // resets of an identity
	ended   map[string]time.Time // when the Erase with that reason returned
}

// eraseAnswer is an answer that a call got.
type eraseAnswer struct {
	call      dedup.Call
	began     time.Time
	value     string
	createdAt time.Time
	err       error
}

func nameOf(c dedup.Call) string { return c.Scope + " " + c.Tool + " " + c.Key }

func eraseUnderLoad(t *testing.T, p profile, calls int) {
	ctx, f := p.setup(t, nil)
	l := &eraseLoad{fixture: f, freed: map[string]int{}, ended: map[string]time.Time{}}
	var callers, others sync.WaitGroup
	var over atomic.Bool
	beside := func(do func(d *dedup.Deduper, n int) error) {
		d := f.peer(t)
		others.Go(func() {
			for n := 0; !over.Load(); n++ {
				if err := do(d, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		beside(func(d *dedup.Deduper, n int) error { return l.erase(ctx, d, fmt.Sprintf("%p %d", d, n)) })
	}
	beside(func(d *dedup.Deduper, _ int) error { return l.reset(ctx, d) })
	beside(func(d *dedup.Deduper, _ int) error {
		_, err := d.Sweep(ctx, &dedup.SweepOptions{BatchSize: 3})
		return err
	})
	for n := range eraseCallers {
		d := f.d
		if n%2 == 0 {
			d = f.peer(t) // the others share flights
		}
		callers.Go(func() {
			for range calls {
				if err := l.call(ctx, d); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	over.Store(true)
	others.Wait()
	require.False(t, t.Failed())
	l.check(t)

	_, err := dedup.Do(ctx, f.d, dedup.Call{Scope: "gone", Tool: "kept", Key: "last"}, says(canary+"gone", nil))
	require.NoError(t, err)
	require.NotEmpty(t, f.traces(t, canary+"gone"))
	require.NoError(t, l.erase(ctx, f.d, "the end"))
	require.Empty(t, f.traces(t, canary+"gone"))
	require.NotEmpty(t, f.traces(t, canary+"stays"))
}

// call makes a call in some way and keeps its answer.
func (l *eraseLoad) call(ctx context.Context, d *dedup.Deduper) error {
	c := dedup.Call{Scope: []string{"gone", "stays"}[rand.N(2)], Tool: []string{"kept", "short"}[rand.N(2)], Key: fmt.Sprint(rand.N(eraseKeys))}
	c.Args = map[string]string{canary + c.Scope: c.Key}
	if c.Tool == "short" { // sweeps drop these
		c.Retention = dedup.Retention{Result: time.Millisecond, Tombstone: time.Hour}
	}
	c.LookFirst = rand.N(2) == 0
	effect := func(ctx context.Context, tx pgx.Tx) (value string, err error) {
		err = tx.QueryRow(ctx, `INSERT INTO effects (ref, run) VALUES ($1, nextval('runs')) RETURNING $2 || run`, nameOf(c), canary+c.Scope).Scan(&value)
		if c.Key == "0" && err == nil {
			err = dedup.Final(errors.New(value))
		}
		return value, err
	}
	a := eraseAnswer{call: c, began: time.Now()}
	var result dedup.Result[string]
	if rand.N(4) == 0 {
		var refused error
		a.err = d.BeginFunc(ctx, func(tx pgx.Tx) (err error) {
			result, err = dedup.DoTx(ctx, d, tx, c, effect)
			if errors.Is(err, dedup.ErrRefused) { // commit the refusal
				refused, err = err, nil
			}
			return err
		})
		if a.err == nil {
			a.err = refused
		}
	} else {
		result, a.err = dedup.Do(ctx, d, c, effect)
	}
	a.value, a.createdAt = result.Value, result.CreatedAt
	if a.err != nil && !errors.Is(a.err, dedup.ErrExpired) && !errors.Is(a.err, dedup.ErrRefused) {
		return fmt.Errorf("%s: %w", nameOf(c), a.err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
	return nil
}

// erase erases the scope "gone", or a tool in it.
func (l *eraseLoad) erase(ctx context.Context, d *dedup.Deduper, name string) error {
	tool := []string{"", "kept"}[rand.N(2)]
	if name == "the end" {
		tool = ""
	}
	_, err := d.Erase(ctx, "gone", tool, dedup.ChangeOptions{Reason: name})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[name] = time.Now()
	return err
}

// reset frees an identity. Its reason has a canary too.
func (l *eraseLoad) reset(ctx context.Context, d *dedup.Deduper) error {
	c := dedup.Call{Scope: []string{"gone", "stays"}[rand.N(2)], Tool: "kept", Key: fmt.Sprint(rand.N(eraseKeys))}
	freed, err := d.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ChangeOptions{Reason: canary + c.Scope})
	if errors.Is(err, dedup.ErrInFlight) {
		return nil
	}
	if freed {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.freed[nameOf(c)]++
	}
	return err
}

// check compares the answers with the audit and the effects.
func (l *eraseLoad) check(t *testing.T) {
	t.Helper()
	type record struct {
		name string
		at   int64
	}
	erased := map[record]time.Time{} // when the Erase of a record had returned
	for _, line := range l.audit(t) {
		if line.Action != "erased" {
			continue
		}
		require.Equal(t, "gone", line.Scope)
		r := record{line.Scope + " " + line.Tool + " " + line.Key, line.CreatedAt.UnixMicro()}
		require.NotContains(t, erased, r, "erased twice")
		require.Contains(t, l.ended, line.Reason)
		erased[r] = l.ended[line.Reason]
	}
	require.NotEmpty(t, erased)

	values, refusedLate := map[record]string{}, 0
	for _, a := range l.answers {
		r := record{nameOf(a.call), a.createdAt.UnixMicro()}
		if errors.Is(a.err, dedup.ErrExpired) {
			require.False(t, a.call.Scope == "stays" && a.call.Tool == "kept", "an answer of another scope is gone: %s", r.name)
			refusedLate++
			continue
		}
		var refused *dedup.RefusedError
		if errors.As(a.err, &refused) {
			r.at, a.value = refused.CreatedAt.UnixMicro(), refused.Message
		}
		if end, gone := erased[r]; gone {
			require.False(t, a.began.After(end), "%s got an erased answer", r.name)
		}
		if first, seen := values[r]; seen {
			require.Equal(t, first, a.value, "two answers of one record")
		}
		values[r] = a.value
	}
	require.NotZero(t, refusedLate)

	rows, err := l.observer.Query(t.Context(), `SELECT ref, count(*) FROM effects GROUP BY ref`)
	require.NoError(t, err)
	var name string
	var runs int
	_, err = pgx.ForEachRow(rows, []any{&name, &runs}, func() error {
		require.LessOrEqual(t, runs, 1+l.freed[name], "%s ran again", name)
		return nil
	})
	require.NoError(t, err)
}
