package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// RecoverOptions are the load of an outbox.
type RecoverOptions struct {
	Backlog  int           // operations accepted before Recover begins
	Dead     int           // operations of a silent provider
	Provider time.Duration // the other provider's time for one
	Conns    int           // of the pool
	Rate     float64       // operations accepted a second, after the backlog
	Paced    time.Duration // the duration of that
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
	counts := func() []int { return []int{o.Backlog} }
	return command(cmd, counts, func(ctx context.Context, b *bed.Bed) error { return outboxes(ctx, b, o) })
}

func outboxes(ctx context.Context, b *bed.Bed, o RecoverOptions) error {
	fmt.Fprintf(b.Out, `
An outbox of one process with a pool of %d connections, and a provider that takes %s. The dead one has %d operations.

`, o.Conns, o.Provider, o.Dead)
	t := measure.NewTable(b.Out, "beside a dead provider", "backlog", "a second, ≥ 200", "accepted later", "p50", "p99")
	for _, dead := range []int{0, o.Dead} {
		b.Say("an outbox of %d operations, beside %d of a dead provider", o.Backlog, dead)
		backlog, later, err := recovered(ctx, b, o, dead)
		if err != nil {
			return err
		}
		t.Row(dead > 0, backlog.Calls, int(backlog.PerSecond()), later.Calls, later.Latency().P50, later.Latency().P99)
	}
	t.Flush()
	return nil
}

// recovered makes an outbox. It returns the time for the backlog and the delay of each later
// operation.
func recovered(ctx context.Context, b *bed.Bed, o RecoverOptions, dead int) (backlog, later measure.Sample, err error) {
	site, err := b.Site(ctx, way.Named("do"))
	if err != nil {
		return backlog, later, err
	}
	defer func() { err = errors.Join(err, site.Drop(ctx)) }()
	pool, err := way.Pool(ctx, site.URL(), o.Conns)
	if err != nil {
		return backlog, later, err
	}
	defer pool.Close()
	box, err := newOutbox(pool, o)
	if err != nil {
		return backlog, later, err
	}
	if err := errors.Join(box.accept(ctx, box.silent, dead), box.accept(ctx, box.healthy, o.Backlog)); err != nil {
		return backlog, later, err
	}
	recovering, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = box.tools.Recover(recovering) // ends with recovering
	}()
	defer func() {
		end()
		_ = box.tools.Close(recovering) // without a wait for the silent provider
		<-ended
	}()
	if backlog, err = box.await(ctx, o.Backlog); err != nil {
		return backlog, later, err
	}
	accepted, err := measure.Load{Rate: o.Rate, Clients: 1}.Beside(ctx, func() error { return measure.Wait(ctx, o.Paced) },
		func(ctx context.Context, _ int) (int, error) { return 1, box.accept(ctx, box.healthy, 1) })
	if err != nil {
		return backlog, later, err
	}
	later, err = box.await(ctx, accepted.Calls)
	return backlog, later, err
}

// intent is an operation's effect and the time of its acceptance.
type intent struct {
	N  int       `json:"n"`
	At time.Time `json:"at"`
}

// effect is an effect and its delay after the acceptance.
type effect struct {
	n    int
	late time.Duration
}

// outbox has a tool with a provider that answers, and a tool with a silent provider.
type outbox struct {
	d               *dedup.Deduper
	tools           *external.Tools
	healthy, silent *external.Handle[intent, intent]
	accepted        int
	done            chan effect
	seen            map[int]bool // operations that have taken effect
}

func newOutbox(pool *pgxpool.Pool, o RecoverOptions) (_ *outbox, err error) {
	box := &outbox{done: make(chan effect, o.Backlog+int(o.Rate*o.Paced.Seconds())), seen: map[int]bool{}}
	if box.d, err = dedup.New(pool, nil); err != nil {
		return nil, err
	}
	if box.tools, err = external.New(box.d, nil); err != nil {
		return nil, err
	}
	tool := external.Tool[intent, intent]{Ref: func(out intent) string { return fmt.Sprint(out.N) }, KeyKept: day}
	tool.Name, tool.Perform = "healthy", func(ctx context.Context, _ external.Attempt, in intent) (intent, error) {
		err := measure.Wait(ctx, o.Provider)
		if err == nil {
			box.done <- effect{in.N, time.Since(in.At)}
		}
		return in, err
	}
	if box.healthy, err = external.Add(box.tools, tool); err != nil {
		return nil, err
	}
	tool.Name, tool.Perform = "silent", func(ctx context.Context, _ external.Attempt, in intent) (intent, error) {
		<-ctx.Done()
		return in, context.Cause(ctx)
	}
	box.silent, err = external.Add(box.tools, tool)
	return box, err
}

// accept accepts a number of operations in one transaction.
func (o *outbox) accept(ctx context.Context, h *external.Handle[intent, intent], operations int) error {
	return o.d.BeginFunc(ctx, func(tx pgx.Tx) error {
		for range operations {
			o.accepted++
			in := intent{o.accepted, time.Now()}
			if _, err := h.Accept(ctx, tx, dedup.Call{Scope: way.Scope, Key: fmt.Sprint(in.N)}, in); err != nil {
				return err
			}
		}
		return nil
	})
}

// await waits until so many further operations have taken effect, each once.
func (o *outbox) await(ctx context.Context, operations int) (all measure.Sample, err error) {
	for began := time.Now(); all.Calls < operations; all.Elapsed = time.Since(began) {
		select {
		case e := <-o.done:
			if o.seen[e.n] {
				return all, fmt.Errorf("operation %d took effect twice", e.n)
			}
			o.seen[e.n] = true
			all.Calls, all.Latencies = all.Calls+1, append(all.Latencies, e.late)
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
	return all, nil
}
