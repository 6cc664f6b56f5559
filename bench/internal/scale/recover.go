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
	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/external"
)

// RecoverOptions say what an outbox has to do.
type RecoverOptions struct {
	Backlog  int           // operations that are accepted before Recover begins
	Dead     int           // operations of a provider that does not answer
	Provider time.Duration // that the other one takes
	Conns    int           // of the pool
	Rate     float64       // operations accepted a second, once the backlog is gone
	Paced    time.Duration // for so long
}

// RecoverCommand returns the command `recover`.
func RecoverCommand() *cobra.Command {
	o := RecoverOptions{Backlog: 10_000, Dead: 10_000, Provider: 50 * time.Millisecond, Conns: 4, Rate: 20, Paced: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Measure an outbox: what external.Recover does a second, and how late it is",
		Long: `Accept a backlog of operations in transactions, and have one process with the default options
carry it out; then accept more at a steady rate, and measure how late each is carried out. Once
alone, and once beside the operations of a tool whose provider does not answer. Each operation must
take effect once.`,
	}
	cmd.Flags().IntVar(&o.Backlog, "backlog", o.Backlog, "operations that are accepted at first")
	return command(cmd, func() []int { return []int{o.Backlog} }, func(ctx context.Context, s stand) error { return outbox(ctx, s, o) })
}

func outbox(ctx context.Context, s stand, o RecoverOptions) error {
	fmt.Fprintf(s.out, `
An outbox of one process with a pool of %d connections, and a provider that takes %s. The dead one has %d operations.

`, o.Conns, o.Provider, o.Dead)
	t := measure.NewTable(s.out, "beside a dead provider", "backlog", "a second, ≥ 200", "accepted later", "p50", "p99")
	for _, dead := range []bool{false, true} {
		s.say("an outbox of %d operations, beside a dead provider: %t", o.Backlog, dead)
		backlog, later, err := s.outboxOf(ctx, o, dead)
		if err != nil {
			return err
		}
		t.Row(dead, backlog.Calls, int(backlog.PerSecond()), later.Calls, later.Latency().P50, later.Latency().P99)
	}
	t.Flush()
	return nil
}

// outboxOf makes an outbox, and returns how long it took to carry out the backlog, and how late each
// operation was that was accepted after that.
func (s stand) outboxOf(ctx context.Context, o RecoverOptions, dead bool) (backlog, later measure.Sample, err error) {
	site, err := s.Site(ctx, way.Do())
	if err != nil {
		return backlog, later, err
	}
	defer func() { err = errors.Join(err, site.Drop(ctx)) }()
	pool, err := way.Pool(ctx, site.Env(1, bed.Line{}).Postgres, o.Conns)
	if err != nil {
		return backlog, later, err
	}
	defer pool.Close()
	d, err := dedup.New(pool, nil)
	if err != nil {
		return backlog, later, err
	}
	tools, err := external.New(d, nil)
	if err != nil {
		return backlog, later, err
	}
	done := make(chan intent, o.Backlog)
	healthy, failed := external.Add(tools, intentTool("healthy", func(ctx context.Context, in intent) error {
		if err := measure.Wait(ctx, o.Provider); err != nil {
			return err
		}
		done <- in
		return nil
	}))
	silent, err := external.Add(tools, intentTool("silent", func(ctx context.Context, _ intent) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	if err = errors.Join(failed, err); err != nil {
		return backlog, later, err
	}
	accept := func(h *external.Handle[intent, intent], from, to int) error {
		return d.BeginFunc(ctx, func(tx pgx.Tx) error {
			for n := from; n < to; n++ {
				in := intent{n, time.Now()}
				if _, err := h.Accept(ctx, tx, dedup.Call{Scope: way.Scope, Key: fmt.Sprint(n)}, in); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if dead {
		if err := accept(silent, 0, o.Dead); err != nil {
			return backlog, later, err
		}
	}
	if err := accept(healthy, 0, o.Backlog); err != nil {
		return backlog, later, err
	}

	recovering, end := context.WithCancel(ctx)
	var recovered sync.WaitGroup
	recovered.Go(func() { _ = tools.Recover(recovering) }) // an error is that it is closed
	defer func() {
		end()
		gone, cancel := context.WithCancel(ctx)
		cancel() // the silent provider's attempts are not waited for
		if closing := tools.Close(gone); !errors.Is(closing, context.Canceled) {
			err = errors.Join(err, closing)
		}
		recovered.Wait()
	}()
	if backlog, err = await(ctx, done, o.Backlog); err != nil {
		return backlog, later, err
	}
	n := int(o.Rate * o.Paced.Seconds())
	accepted := make(chan error, 1)
	go func() {
		for i := range n {
			if err := accept(healthy, o.Backlog+i, o.Backlog+i+1); err != nil {
				accepted <- err
				return
			}
			_ = measure.Wait(ctx, time.Duration(float64(time.Second)/o.Rate))
		}
		accepted <- nil
	}()
	later, err = await(ctx, done, n)
	return backlog, later, errors.Join(err, <-accepted)
}

// intent is what an operation is to do, and when it was accepted.
type intent struct {
	N  int       `json:"n"`
	At time.Time `json:"at"`
}

func intentTool(name string, perform func(context.Context, intent) error) external.Tool[intent, intent] {
	return external.Tool[intent, intent]{
		Name: name, Ref: func(out intent) string { return fmt.Sprint(out.N) }, KeyKept: day,
		Perform: func(ctx context.Context, _ external.Attempt, in intent) (intent, error) { return in, perform(ctx, in) },
	}
}

// await waits until n operations have taken effect, each once, and returns how long each took since it was accepted.
func await(ctx context.Context, done <-chan intent, n int) (all measure.Sample, err error) {
	seen := map[int]bool{}
	for began := time.Now(); len(seen) < n; all.Elapsed = time.Since(began) {
		select {
		case in := <-done:
			if seen[in.N] {
				return all, fmt.Errorf("operation %d took effect twice", in.N)
			}
			seen[in.N] = true
			all.Calls, all.Latencies = all.Calls+1, append(all.Latencies, time.Since(in.At))
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
	return all, nil
}
