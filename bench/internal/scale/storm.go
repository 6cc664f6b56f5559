package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/server"
)

// StormOptions say how twins are set on one slow effect.
type StormOptions struct {
	Twins  int           // of a storm, shared by all Dedupers
	Conns  int           // of each Deduper's pool
	Effect time.Duration // that the one effect takes
	Storms int           // one after the other
	Rate   float64       // other calls a second, on each pool
	Quiet  time.Duration // how long the other calls run without a storm
}

// stormRow is what other calls notice of twins that wait for one effect. With one
// Deduper the twins wait in memory, with two, as in two processes, they meet in the
// database.
type stormRow struct {
	quiet, stormy measure.Latency // the other calls
	slowest       time.Duration   // of the twins
}

// otherCallers are more than the load ever needs at a time: what holds the other
// calls up must be the pool, as it is for requests of a service.
const otherCallers = 256

// StormCommand returns the command `storm`.
func StormCommand() *cobra.Command {
	o := StormOptions{Twins: 200, Conns: 4, Effect: 700 * time.Millisecond, Storms: 20, Rate: 100, Quiet: 15 * time.Second}
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Measure what other calls notice of many twins of one slow effect",
		Long: `Call twins of one slow effect at once on a small pool, again and again, while calls
of other identities run on the same pool at a steady rate: on one Deduper, where
twins wait in memory, and on two with a pool each, where they meet in the database.
One effect and equal answers are checked for every storm.`,
	}
	cmd.Flags().IntVar(&o.Storms, "storms", o.Storms, "storms, one after the other")
	return command(cmd, nil, func(ctx context.Context, s stand) error { return storm(ctx, s, o) })
}

func storm(ctx context.Context, s stand, o StormOptions) error {
	t := figure.NewTable("dedupers", "storms", "slowest twin", "others' p50 quiet", "p50 in storms", "p99 quiet", "p99 in storms, ≤ 50 ms", "others")
	for dedupers := 1; dedupers <= 2; dedupers++ {
		s.say("%d storms of %d twins, Dedupers: %d", o.Storms, o.Twins, dedupers)
		row, err := s.stormOn(ctx, o, dedupers)
		if err != nil {
			return fmt.Errorf("dedupers: %d: %w", dedupers, err)
		}
		t.Row(dedupers, o.Storms, row.slowest, row.quiet.P50, row.stormy.P50, row.quiet.P99, row.stormy.P99, row.stormy.Calls)
	}
	fmt.Fprintf(s.out, `
Storms of %d twins of an effect of %s, on pools of %d connections; and the other calls on these pools.
Each storm had one effect and equal answers.

`, o.Twins, o.Effect, o.Conns)
	t.Write(s.out)
	return nil
}

func (s stand) stormOn(ctx context.Context, o StormOptions, dedupers int) (row stormRow, err error) {
	var tools []*tool
	var others []measure.Op
	opts := dedup.Options{Schema: "storm", Retention: dedup.TaskRetention()}
	for i := range dedupers {
		pool, err := server.Pool(ctx, s.url, o.Conns)
		if err != nil {
			return row, err
		}
		defer pool.Close()
		t, err := newTool(pool, opts)
		if i == 0 {
			t, err = newField(ctx, pool, opts)
		}
		if err != nil {
			return row, err
		}
		tools, others = append(tools, t), append(others, t.first(OrderedKeys))
		if err := drive(ctx, o.Conns, o.Conns*warmCalls, others[i]); err != nil {
			return row, err
		}
	}

	load := pace{rate: o.Rate, clients: otherCallers}
	quiet, err := load.beside(ctx, func() error { return wait(ctx, o.Quiet) }, others...)
	if err != nil {
		return row, err
	}
	stormy, err := load.beside(ctx, func() error {
		for range o.Storms {
			slowest, err := oneStorm(ctx, o, tools)
			if err != nil {
				return err
			}
			row.slowest = max(row.slowest, slowest)
		}
		return nil
	}, others...)
	row.quiet, row.stormy = quiet.Latency(), stormy.Latency()
	return row, err
}

// oneStorm calls all twins at once and checks what they were answered.
func oneStorm(ctx context.Context, o StormOptions, tools []*tool) (slowest time.Duration, err error) {
	key := dedup.NewKey()
	answers := make([]dedup.Result[ticket], o.Twins)
	errs := make([]error, o.Twins)
	start := make(chan struct{})
	var twins sync.WaitGroup
	for i := range o.Twins {
		twins.Go(func() {
			<-start
			answers[i], errs[i] = tools[i%len(tools)].slowCall(ctx, key, o.Effect)
		})
	}
	begun := time.Now()
	close(start)
	twins.Wait()
	slowest = time.Since(begun)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("a twin: %w", err)
	}
	var effects int
	err = tools[0].pool.QueryRow(ctx, "SELECT count(*) FROM "+tools[0].effects+" WHERE ref = $1", key).Scan(&effects)
	if err != nil {
		return 0, err
	}
	return slowest, judgeStorm(effects, answers)
}

// slowCall is a call whose effect takes a while inside the database.
func (t *tool) slowCall(ctx context.Context, key string, d time.Duration) (dedup.Result[ticket], error) {
	return dedup.Do(ctx, t.d, ticketCall(key), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		if _, err := tx.Exec(ctx, "SELECT pg_sleep($1)", d.Seconds()); err != nil {
			return ticket{}, err
		}
		return t.effect(ctx, tx, key)
	})
}

// judgeStorm reports whether twins had one effect and equal answers, all but one
// of them replays.
func judgeStorm(effects int, answers []dedup.Result[ticket]) error {
	firsts := 0
	for i, answer := range answers {
		if !answer.Replayed || answer.Recovered {
			firsts++
		}
		if answer.Value != answers[0].Value {
			return fmt.Errorf("twins got different answers: %+v and %+v, the latter was twin %d", answers[0].Value, answer.Value, i)
		}
	}
	if effects != 1 || firsts != 1 {
		return fmt.Errorf("%d twins had %d effects and %d first answers, and not one of each", len(answers), effects, firsts)
	}
	return nil
}
