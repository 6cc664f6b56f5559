// Package inject makes the faults of a plan happen to running workers, and
// counts those that really did.
package inject

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
)

// settleWait bounds how long a fault may take to be over once its round is.
const settleWait = 20 * time.Second

// Targets is what faults are done to.
type Targets interface {
	// Proxy is the one between a worker and the server.
	Proxy(at int) *faultproxy.Proxy
	// Between are the proxies between the nodes of a cluster, none where there is no cluster.
	Between() []*faultproxy.Proxy
	// Wire is the driver's end of the connections to a worker.
	Wire(at int) *wire.Transport
	// Kill ends a worker's process and returns when it is gone.
	Kill(at int) bool
	// Terminate ends the worker's backend that is inside a transaction.
	Terminate(ctx context.Context, at int) (bool, error)
}

// Round is the faults of one round, ready to hit.
type Round struct {
	targets Targets
	faults  []*fault

	stop  chan struct{} // closed when the deliveries have been answered
	watch sync.WaitGroup

	mu  sync.Mutex
	err error // the first that a watcher met
}

// fault is one planned fault, armed at every worker of the round.
type fault struct {
	plan.Fault
	aim   aim
	armed []*faultproxy.Armed
	// applied counts what a watcher did; the faults without one are counted
	// by the proxy.
	applied atomic.Int32
	watched bool
	sensors []*faultproxy.Armed
	// cut is a plan.CutConnection, which has none of the above.
	cut *wire.Cut
}

// Arm makes the faults of a planned round ready. It must be ended by End.
func Arm(ctx context.Context, targets Targets, planned plan.Round) *Round {
	r := &Round{targets: targets, stop: make(chan struct{})}
	for _, f := range planned.Faults {
		armed := &fault{Fault: f}
		r.faults = append(r.faults, armed)
		if f.Kind == plan.CutConnection {
			armed.cut = wire.NewCut(f.How)
			for _, at := range planned.Workers {
				targets.Wire(at).Arm(armed.cut)
			}
			continue
		}
		armed.aim.match = target(f)
		if f.Kind == plan.BetweenNodes {
			for i, proxy := range targets.Between() {
				armed.armed = append(armed.armed, proxy.Arm(faultproxy.Fault{Kind: wireKind(f), Where: armed.aim.where(i)}))
			}
			continue
		}
		for _, at := range planned.Workers {
			r.arm(ctx, armed, at)
		}
	}
	return r
}

func (r *Round) arm(ctx context.Context, f *fault, at int) {
	armed := r.targets.Proxy(at).Arm(faultproxy.Fault{Kind: wireKind(f.Fault), Where: f.aim.where(at)})
	f.armed = append(f.armed, armed)
	act := action(f.Fault)
	if act == nil {
		return
	}
	f.watched = true
	h := hit{round: r, fault: f, at: at, armed: armed}
	if f.Kind == plan.DelayedCommit {
		h.sensor = r.sense(f, at)
		f.sensors = append(f.sensors, h.sensor)
	}
	r.watch.Go(func() {
		if !r.await(ctx, armed.Applied()) {
			return
		}
		if err := act(ctx, &h); err != nil {
			r.fail(fmt.Errorf("injecting %s: %w", f.Kind, err))
		}
	})
}

// await waits for a signal, and reports false when the round or ctx ended
// without it.
func (r *Round) await(ctx context.Context, signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	case <-r.stop:
	case <-ctx.Done():
	}
	select {
	case <-signal: // it came with the end
		return true
	default:
		return false
	}
}

func (r *Round) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// End disarms what has found no target, waits until everything that was hit is
// over in the database, and returns how many faults of each kind were applied.
func (r *Round) End(ctx context.Context) (map[plan.Kind]int, error) {
	for _, f := range r.faults {
		if f.cut != nil {
			f.cut.Disarm()
		}
		for _, armed := range slices.Concat(f.armed, f.sensors) {
			armed.Disarm()
		}
	}
	close(r.stop)
	r.watch.Wait()

	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	applied := map[plan.Kind]int{}
	for _, f := range r.faults {
		count, err := f.settle(ctx)
		if err != nil {
			r.fail(err)
		}
		if count > 0 {
			applied[f.Kind] += count
		}
	}
	return applied, r.err
}

// settle releases everything and returns how often the fault was applied.
func (f *fault) settle(ctx context.Context) (int, error) {
	count := 0
	if f.cut != nil && f.cut.Applied() {
		count++
	}
	for _, armed := range f.armed {
		armed.Release()
		if armed.Count() == 0 {
			continue
		}
		count += armed.Count()
		if err := armed.WaitSettled(ctx); err != nil {
			return count, err
		}
	}
	if f.watched {
		count = int(f.applied.Load())
	}
	return count, nil
}
