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

// outboxRow has the times of a healthy tool's operations.
type outboxRow struct {
	drained measure.Sample // the backlog
	paced   measure.Sample // from before one was accepted until the provider was done
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
	return command(cmd, nil, func(ctx context.Context, s stand) error { return outbox(ctx, s, o) })
}

func outbox(ctx context.Context, s stand, o RecoverOptions) error {
	t := figure.NewTable("beside a dead provider", "backlog", "a second, ≥ 200", "accepted later", "p50", "p99")
	for _, dead := range []bool{false, true} {
		s.say("an outbox of %d operations, beside a dead provider: %t", o.Backlog, dead)
		row, err := s.outboxOf(ctx, o, dead)
		if err != nil {
			return err
		}
		later := row.paced.Latency()
		t.Row(dead, o.Backlog, fmt.Sprintf("%.0f", row.drained.PerSecond()), later.Calls, later.P50, later.P99)
	}
	fmt.Fprintf(s.out, `
An outbox of one process with a pool of %d connections, and a provider that takes %s. The dead one has %d operations.

`, o.Conns, o.Provider, o.Dead)
	t.Write(s.out)
	return nil
}

type intent struct {
	Ref string `json:"ref"`
}

// outboxOf makes an outbox in a schema of its own.
func (s stand) outboxOf(ctx context.Context, o RecoverOptions, dead bool) (row outboxRow, err error) {
	pool, err := server.Pool(ctx, s.url, o.Conns)
	if err != nil {
		return row, err
	}
	defer pool.Close()
	on, err := newField(ctx, pool, dedup.Options{Schema: "outbox"})
	if err != nil {
		return row, err
	}
	tools, err := external.New(on.d, nil)
	if err != nil {
		return row, err
	}
	done := make(chan string, o.Backlog)
	healthy, err := external.Add(tools, intentTool("healthy", func(ctx context.Context, in intent) (intent, error) {
		if err := wait(ctx, o.Provider); err != nil {
			return in, err
		}
		done <- in.Ref
		return in, nil
	}))
	if err != nil {
		return row, err
	}
	silent, err := external.Add(tools, intentTool("silent", func(ctx context.Context, in intent) (intent, error) {
		<-ctx.Done()
		return in, context.Cause(ctx)
	}))
	if err != nil {
		return row, err
	}
	accept := func(h *external.Handle[intent, intent], refs ...string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			for _, ref := range refs {
				if _, err := h.Accept(ctx, tx, dedup.Call{Scope: "acme", Key: ref}, intent{ref}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if dead {
		if err := accept(silent, numbered("dead", o.Dead)...); err != nil {
			return row, err
		}
	}
	if err := accept(healthy, numbered("backlog", o.Backlog)...); err != nil {
		return row, err
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
	began := time.Now()
	if err := await(ctx, done, nil, o.Backlog); err != nil {
		return row, err
	}
	row.drained = measure.Sample{Calls: o.Backlog, Elapsed: time.Since(began)}

	accepted := map[string]time.Time{}
	var mu sync.Mutex
	later := numbered("later", int(o.Rate*o.Paced.Seconds()))
	accepting := make(chan error, 1)
	go func() {
		for _, ref := range later {
			mu.Lock()
			accepted[ref] = time.Now()
			mu.Unlock()
			if err := accept(healthy, ref); err != nil {
				accepting <- err
				return
			}
			_ = wait(ctx, time.Duration(float64(time.Second)/o.Rate))
		}
		accepting <- nil
	}()
	began = time.Now()
	row.paced.Calls = len(later)
	err = await(ctx, done, func(ref string) {
		mu.Lock()
		defer mu.Unlock()
		row.paced.Latencies = append(row.paced.Latencies, time.Since(accepted[ref]))
	}, len(later))
	row.paced.Elapsed = time.Since(began)
	return row, errors.Join(err, <-accepting)
}

func intentTool(name string, perform func(context.Context, intent) (intent, error)) external.Tool[intent, intent] {
	return external.Tool[intent, intent]{
		Name: name, Ref: func(out intent) string { return out.Ref }, KeyKept: 24 * time.Hour,
		Perform: func(ctx context.Context, _ external.Attempt, in intent) (intent, error) { return perform(ctx, in) },
	}
}

func numbered(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return all
}

// await waits until n operations have taken effect, each once.
func await(ctx context.Context, done <-chan string, took func(ref string), n int) error {
	seen := map[string]bool{}
	for len(seen) < n {
		select {
		case ref := <-done:
			if seen[ref] {
				return fmt.Errorf("%s took effect twice", ref)
			}
			seen[ref] = true
			if took != nil {
				took(ref)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
