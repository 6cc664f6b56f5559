package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
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

// Storm is what other calls notice of many twins that wait for one effect.
type Storm struct {
	Machine report.Machine `json:"machine"`
	Twins   int            `json:"twins"`
	Conns   int            `json:"connections_per_pool"`
	Effect  string         `json:"effect"`
	Rows    []StormRow     `json:"rows"`
	Goals   []Goal         `json:"goals"`
}

// StormRow is one number of Dedupers. With one the twins wait in memory, with
// two, as in two processes, they meet in the database.
type StormRow struct {
	Dedupers int             `json:"dedupers"`
	Storms   int             `json:"storms"`
	Quiet    measure.Latency `json:"others_quiet"`
	Stormy   measure.Latency `json:"others_stormy"`
	Slowest  time.Duration   `json:"slowest_twin_ns"`
	Effects  int             `json:"effects"` // one a storm, or the measurement fails
	Answers  int             `json:"answers"` // all equal within a storm, or it fails
}

const stormSchema = "storm"

// otherCallers are more than the load ever needs at a time: what holds the other
// calls up must be the pool, as it is for requests of a service.
const otherCallers = 256

func storm(ctx context.Context, s stand, o StormOptions) (*Storm, error) {
	machine, err := s.machine(ctx)
	if err != nil {
		return nil, err
	}
	result := &Storm{Machine: machine, Twins: o.Twins, Conns: o.Conns, Effect: o.Effect.String()}
	for dedupers := 1; dedupers <= 2; dedupers++ {
		s.say("%d storms of %d twins on %s", o.Storms, o.Twins, dedupersOf(dedupers))
		row, err := s.stormOn(ctx, o, dedupers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dedupersOf(dedupers), err)
		}
		result.Rows = append(result.Rows, row)
		result.Goals = append(result.Goals,
			atMost(fmt.Sprintf("p99 of other calls in a storm, in ms, %s", dedupersOf(dedupers)), 50, float64(row.Stormy.P99)/float64(time.Millisecond)))
	}
	return result, nil
}

func (s stand) stormOn(ctx context.Context, o StormOptions, dedupers int) (StormRow, error) {
	row := StormRow{Dedupers: dedupers, Storms: o.Storms}
	if err := s.field(ctx, stormSchema); err != nil {
		return row, err
	}
	var tools []*tool
	for range dedupers {
		pool, err := s.pool(ctx, o.Conns)
		if err != nil {
			return row, err
		}
		defer pool.Close()
		t, err := newTool(pool, dedup.Options{Schema: stormSchema, Retention: dedup.TaskRetention()})
		if err != nil {
			return row, err
		}
		if _, err := drive(ctx, o.Conns, o.Conns*warmCalls, t.first(OrderedKeys)); err != nil {
			return row, err
		}
		tools = append(tools, t)
	}

	var err error
	row.Quiet, err = besides(ctx, o, tools, func() error { return wait(ctx, o.Quiet) })
	if err != nil {
		return row, err
	}
	row.Stormy, err = besides(ctx, o, tools, func() error {
		for range o.Storms {
			slowest, err := oneStorm(ctx, o, tools)
			if err != nil {
				return err
			}
			row.Slowest = max(row.Slowest, slowest)
			row.Effects++
			row.Answers += o.Twins
		}
		return nil
	})
	return row, err
}

// besides runs the other calls on every pool while work is done.
func besides(ctx context.Context, o StormOptions, tools []*tool, work func() error) (measure.Latency, error) {
	var heard ear
	var loads sync.WaitGroup
	stop := make(chan struct{})
	start := time.Now()
	for _, t := range tools {
		loads.Go(func() {
			pace{rate: o.Rate, clients: otherCallers}.run(ctx, stop, t.first(OrderedKeys), heard.hear)
		})
	}
	err := work()
	elapsed := time.Since(start)
	close(stop)
	loads.Wait()
	all := heard.take()
	if err := errors.Join(err, firstError(all)); err != nil {
		return measure.Latency{}, err
	}
	return sampleOf(all, elapsed).Latency(), nil
}

// oneStorm calls all twins at once and checks what they were answered.
func oneStorm(ctx context.Context, o StormOptions, tools []*tool) (slowest time.Duration, err error) {
	key := dedup.NewKey()
	answers := make([]dedup.Result[ticket], o.Twins)
	errs := make([]error, o.Twins)
	took := make([]time.Duration, o.Twins)
	start := make(chan struct{})
	var twins sync.WaitGroup
	for i := range o.Twins {
		twins.Go(func() {
			<-start
			begun := time.Now()
			answers[i], errs[i] = tools[i%len(tools)].slowCall(ctx, key, o.Effect)
			took[i] = time.Since(begun)
		})
	}
	close(start)
	twins.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("a twin: %w", err)
	}
	var effects int
	err = tools[0].pool.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{stormSchema, "effects"}.Sanitize()+" WHERE ref = $1", key).Scan(&effects)
	if err != nil {
		return 0, err
	}
	for _, d := range took {
		slowest = max(slowest, d)
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

func dedupersOf(n int) string {
	if n == 1 {
		return "1 Deduper"
	}
	return fmt.Sprintf("%d Dedupers", n)
}

// verdict has nothing to say: a storm with a wrong answer ends the measurement.
func (*Storm) verdict() error { return nil }
