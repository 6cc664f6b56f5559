package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// longestPause is the longest pause between two sweeps, and between two Resets.
const longestPause = 12 * time.Millisecond

// round is the time between two judgements. It has its own keys.
type round struct {
	*storm
	*books
	n, before int
}

// rage has the callers make the calls of a round, waits for them and judges the round.
func (s *storm) rage(ctx context.Context, n int, v *verdict) error {
	r := &round{s, newBooks(), n, int(s.made.Load())}
	resetting, end := context.WithCancel(ctx)
	defer end()
	var resets, calling sync.WaitGroup
	if !s.lasting {
		resets.Go(func() { r.reset(resetting) })
	}
	house := s.clients[r.rng(0).IntN(len(s.clients))]
	for i := range s.callers {
		calling.Go(func() {
			rng := r.rng(uint64(i + 1))
			for int(s.made.Load()) < r.before+s.roundCalls && ctx.Err() == nil {
				r.make(ctx, r.draw(rng, house))
			}
		})
	}
	calling.Wait()
	end()
	resets.Wait()
	if !s.lasting {
		r.last(ctx)
	}
	if err := cmp.Or(ctx.Err(), r.err); err != nil {
		return err
	}
	if err := r.read(ctx, s.db); err != nil {
		return err
	}
	return r.judge(v)
}

func (r *round) rng(of uint64) *rand.Rand {
	return rand.New(rand.NewPCG(r.seed, uint64(r.n)<<8|of))
}

// firstKey is the first key of the window.
func (r *round) firstKey() int { return (int(r.made.Load()) - r.before) / r.perKey }

func (r *round) key(n int) string { return fmt.Sprintf("%d-%d", r.n, n) }

// last frees every key of the round and calls it once more, without faults.
func (r *round) last(ctx context.Context) {
	for n := range r.firstKey() + window {
		by := r.freers[n%len(r.freers)]
		err := lab.Insist(ctx, func(ctx context.Context, _ int) error { // a connection may still hold it
			return r.resetOne(ctx, by, r.key(n))
		})
		if err != nil {
			r.note(func() { r.err = cmp.Or(r.err, err) })
		}
		r.make(ctx, &draw{
			way: lab.Ways[0], by: &lab.Client{Pool: r.db.Pool, D: by}, keys: []string{r.key(n)},
			limit: lab.Patience, call: dedup.Call{Scope: "chaos", Tool: "effect"},
		})
	}
}

// reset resets keys of the window, one after the other.
func (r *round) reset(ctx context.Context) {
	rng := r.rng(0xff)
	for lab.Pause(ctx, time.Duration(rng.Int64N(int64(longestPause)))) {
		err := r.resetOne(ctx, r.freers[rng.IntN(len(r.freers))], r.key(r.firstKey()+rng.IntN(window)))
		if err != nil && !errors.Is(err, dedup.ErrInFlight) {
			r.note(func() { r.err = cmp.Or(r.err, fmt.Errorf("resetting: %w", err)) })
		}
	}
}

func (r *round) resetOne(ctx context.Context, by *dedup.Deduper, key string) error {
	// It outlives the round: the books must know of every Reset that deleted a record.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.Patience)
	defer cancel()
	freed, err := by.Reset(ctx, "chaos", "effect", key, dedup.ChangeOptions{Reason: "chaos"})
	if freed {
		done := r.now(ctx, r.db)
		r.note(func() { r.resets[key] = append(r.resets[key], done) })
	}
	return err
}
