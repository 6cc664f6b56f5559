package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

const (
	// settleWait bounds the time that a fault needs to be over after its round.
	settleWait = 20 * time.Second
	// cutBehind is the time between a request and the cut of a requestSent.
	cutBehind = 2 * time.Millisecond
)

// ambush is the faults of one round, ready to hit.
type ambush struct {
	faults []*armedFault
	watch  errgroup.Group
	over   chan struct{} // closed after the last answer
}

// armedFault is one planned fault. It is armed at every worker of the round and hits the first
// matching unit or delivery.
type armedFault struct {
	fault
	armed, sensors []*faultproxy.Armed
	// applied counts hits that the proxies do not count.
	applied atomic.Int32

	mu    sync.Mutex
	taken bool
	at    int // the worker that was hit
	conn  int // its connection's number at its proxy
}

// lay arms the faults of a planned round. The caller must call end.
func (p *play) lay(ctx context.Context, planned round) *ambush {
	a := &ambush{over: make(chan struct{})}
	for _, planned := range planned.faults {
		a.faults = append(a.faults, &armedFault{fault: planned})
	}
	for _, f := range a.faults {
		for _, at := range planned.workers {
			if f.kind == cutConnection {
				p.places[at].meet(f.cutNext)
			} else {
				p.ambushAt(ctx, a, f, at)
			}
		}
	}
	return a
}

// ambushAt arms a fault at a worker. It watches the faults at whose hit the driver acts.
func (p *play) ambushAt(ctx context.Context, a *ambush, f *armedFault, at int) {
	place := p.places[at]
	armed := f.arm(place.proxy, at)
	var act func() error
	switch f.kind {
	case terminate:
		// The server's last message tells the worker, as after an administrator's command. If the
		// backend has already ended, nothing is counted. If another backend of the worker was
		// ended, the unit is held until the deliveries are answered.
		act = func() error {
			done, err := p.db.terminate(ctx, place.name)
			if err != nil || !done {
				return err
			}
			f.applied.Add(1)
			settling, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				a.await(settling, nil)
				cancel()
			}()
			_ = armed.WaitSettled(settling)
			return nil
		}
	case kill:
		// A network may then do the same with the held unit.
		act = func() error {
			if place.seat.Kill() {
				f.applied.Add(1)
			}
			if f.how == commitUnsent {
				place.proxy.CutAll()
			}
			return nil
		}
	case delayedCommit:
		// After the client has left, its COMMIT is released when a retry runs. A fault without
		// effect detects that retry.
		sensor := place.proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: f.retry(at)})
		sensor.Release()
		f.sensors = append(f.sensors, sensor)
		act = func() error {
			if a.await(ctx, sensor.Applied()) {
				f.applied.Add(1)
			}
			return nil
		}
	default:
		return
	}
	a.watch.Go(func() error {
		if !a.await(ctx, armed.Applied()) {
			return nil
		}
		defer armed.Release()
		if err := act(); err != nil {
			return fmt.Errorf("injecting %s: %w", f.kind, err)
		}
		return nil
	})
}

func (f *armedFault) arm(proxy *faultproxy.Proxy, at int) *faultproxy.Armed {
	armed := proxy.Arm(faultproxy.Fault{Kind: f.wireKind(), Where: f.where(at)})
	f.armed = append(f.armed, armed)
	return armed
}

// wireKind is the proxy's fault for the unit. terminate and kill use Hold.
func (f fault) wireKind() faultproxy.Kind {
	switch {
	case f.kind == delayedCommit:
		return faultproxy.Delayed
	case f.kind == cutBeforeCommit:
		return faultproxy.Dropped
	case f.how == reset:
		return faultproxy.ReplyReset
	case f.how == closed:
		return faultproxy.ReplyClosed
	case f.how == cut:
		return faultproxy.ReplyCut
	case f.how == committed:
		return faultproxy.ReplyDelayed
	default:
		return faultproxy.Hold
	}
}

// aims reports whether the fault may hit a unit.
func (f fault) aims(u faultproxy.Unit) bool {
	switch {
	case f.kind == lostReply:
		return opens(u)
	case f.how == effectBegins:
		return faultproxy.AtSQL(ledger.Begins)(u)
	case f.how == effectEnds:
		return faultproxy.AtSQL(ledger.Ends)(u)
	default:
		return faultproxy.AtCommit(u)
	}
}

// opens reports whether a unit opens a transaction. It is the first round trip of a delivery, and
// with dedup it carries the look-up of the record.
func opens(u faultproxy.Unit) bool {
	return len(u.Executes) > 0 && strings.HasPrefix(strings.ToLower(u.Executes[0]), "begin")
}

// where returns the faultproxy.Fault.Where of a worker's proxy.
func (f *armedFault) where(at int) func(faultproxy.Unit) bool {
	return func(u faultproxy.Unit) bool { return f.aims(u) && f.take(at, u.Conn) }
}

// take reports whether the caller's unit is the first hit.
func (f *armedFault) take(at, conn int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken {
		return false
	}
	f.taken, f.at, f.conn = true, at, conn
	return true
}

// retry picks units of the same worker on another connection.
func (f *armedFault) retry(at int) func(faultproxy.Unit) bool {
	return func(u faultproxy.Unit) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.taken && f.at == at && f.conn != u.Conn && len(u.Executes) > 0
	}
}

// cutNext plans the fault of the next delivery to a worker.
func (f *armedFault) cutNext() *lab.HTTPMishap {
	if !f.take(0, 0) {
		return nil
	}
	m := &lab.HTTPMishap{Fault: lab.CutAnswer, Applied: func() { f.applied.Add(1) }}
	switch f.how {
	case requestSent:
		m.Fault, m.After = lab.CutBehind, cutBehind
	case answerBroken:
		m.Fault = lab.CutHalf
	}
	return m
}

// await waits for a signal. It returns false if the round or ctx ended first.
func (a *ambush) await(ctx context.Context, signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	case <-a.over:
	case <-ctx.Done():
	}
	select {
	case <-signal: // both came together
		return true
	default:
		return false
	}
}

// end disarms the faults without a hit, waits until the others are over in the database, and
// returns the number of applied faults of each kind.
func (a *ambush) end(ctx context.Context) (map[faultKind]int, error) {
	for _, f := range a.faults {
		f.take(-1, -1)
		for _, armed := range slices.Concat(f.armed, f.sensors) {
			armed.Disarm()
		}
	}
	close(a.over)
	err := a.watch.Wait()

	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	applied := map[faultKind]int{}
	for _, f := range a.faults {
		count, settleErr := f.settle(ctx)
		if err == nil {
			err = settleErr
		}
		if count > 0 {
			applied[f.kind] += count
		}
	}
	return applied, err
}

// settle releases everything and returns the number of hits.
func (f *armedFault) settle(ctx context.Context) (count int, err error) {
	for _, armed := range f.armed {
		armed.Release()
		if hits := armed.Count(); hits > 0 && err == nil {
			count += hits
			err = armed.WaitSettled(ctx)
		}
	}
	switch f.kind {
	case terminate, kill, delayedCommit, cutConnection:
		count = int(f.applied.Load())
	}
	return count, err
}
