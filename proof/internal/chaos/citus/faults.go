package citus

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// betweenNodes are the faults on the way from a node to a worker, with their frequency in a
// thousand units with a COMMIT and in a thousand others. No answer is swallowed here: a node waits
// for ever for a silent node.
var betweenNodes = []struct {
	faultproxy.Fault
	commit, other int
}{
	{faultproxy.Fault{Kind: faultproxy.ReplyReset}, 15, 1},
	{faultproxy.Fault{Kind: faultproxy.ReplyCut}, 10, 0},
	{faultproxy.Fault{Kind: faultproxy.Dropped}, 10, 1},
	{faultproxy.Fault{Kind: faultproxy.Delayed, Delay: 100 * time.Millisecond}, 15, 0},
}

// restartVariable names a command that restarts a node. It gets the node's number, from 0. Without
// it no node is restarted.
const restartVariable = "DEDUP_CITUS_RESTART"

const (
	restartEvery = 15 * time.Second
	// endEvery is the average time between two ended backends of a node.
	endEvery = 200 * time.Millisecond
)

// arm lets all proxies apply faults to the clients' COMMITs and to the traffic between nodes,
// two-phase commits included.
func (c *cluster) arm(seed uint64) {
	for i, proxy := range c.clients {
		lab.ArmCommits(proxy, seed+uint64(i))
	}
	for _, proxy := range c.workers {
		for _, f := range betweenNodes {
			fault := f.Fault
			fault.Times = -1
			fault.Where = func(u faultproxy.Unit) bool {
				often := f.other
				if u.Commits || completes(u) {
					often = f.commit
				}
				return u.Index > 0 && !c.calm.Load() && rand.IntN(1000) < often
			}
			proxy.Arm(fault)
		}
	}
}

// completes reports whether a unit belongs to a two-phase commit.
func completes(u faultproxy.Unit) bool {
	return faultproxy.AtSQL("prepare transaction")(u) || faultproxy.AtSQL("commit prepared")(u)
}

// faults counts the applied faults by kind and place.
func (c *cluster) faults(a *lab.Arm) {
	for _, proxy := range c.clients {
		for kind, n := range proxy.Snapshot().Faults {
			a.Fault(string(kind), n)
		}
	}
	for _, proxy := range c.workers {
		for kind, n := range proxy.Snapshot().Faults {
			a.Fault("between nodes: "+string(kind), n)
		}
	}
}

// disturb ends backends on every node and now and then restarts a node, until ctx ends.
func (c *cluster) disturb(ctx context.Context, around *sync.WaitGroup) (ended, restarts *atomic.Int64) {
	ended, restarts = &atomic.Int64{}, &atomic.Int64{}
	for _, node := range c.own {
		c.repeat(ctx, around, func() time.Duration { return rand.N(2 * endEvery) }, func(int) error {
			done, err := lab.TerminateOne(ctx, node)
			if done {
				ended.Add(1)
			}
			return err
		})
	}
	if command := os.Getenv(restartVariable); command != "" {
		c.repeat(ctx, around, func() time.Duration { return restartEvery }, func(n int) error {
			// without ctx: a node that is down would stay down
			err := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command+" "+strconv.Itoa(n%len(c.own))).Run()
			if err == nil {
				restarts.Add(1)
			}
			return err
		})
	}
	return ended, restarts
}

// repeat calls a function again and again, except while the books are settled. It ignores errors: a
// node may be restarting.
func (c *cluster) repeat(ctx context.Context, around *sync.WaitGroup, pause func() time.Duration, do func(n int) error) {
	around.Go(func() {
		for n := 0; lab.Pause(ctx, pause()); n++ {
			c.disturbing.RLock()
			_ = do(n)
			c.disturbing.RUnlock()
		}
	})
}
