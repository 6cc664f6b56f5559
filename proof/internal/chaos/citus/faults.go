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

// betweenNodes are the faults on the way from a node to a worker, with how often of a thousand
// units of a COMMIT, and of any other. Nothing is swallowed there: a node waits for ever for
// another one that is silent.
var betweenNodes = []struct {
	faultproxy.Fault
	commit, other int
}{
	{faultproxy.Fault{Kind: faultproxy.ReplyReset}, 15, 1},
	{faultproxy.Fault{Kind: faultproxy.ReplyCut}, 10, 0},
	{faultproxy.Fault{Kind: faultproxy.Dropped}, 10, 1},
	{faultproxy.Fault{Kind: faultproxy.Delayed, Delay: 100 * time.Millisecond}, 15, 0},
}

// restartVariable is a command that restarts the node whose number follows, from 0. Without it no node
// is restarted.
const restartVariable = "DEDUP_CITUS_RESTART"

const (
	restartEvery = 15 * time.Second
	// endEvery is how often a backend of each node is ended, on average.
	endEvery = 200 * time.Millisecond
)

// arm lets all proxies apply faults: on COMMITs of clients, and on what the nodes send each
// other, two-phase commits among it.
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

// completes reports whether a unit is one of a two-phase commit.
func completes(u faultproxy.Unit) bool {
	return faultproxy.AtSQL("prepare transaction")(u) || faultproxy.AtSQL("commit prepared")(u)
}

// faults counts those that were applied, by kind and place.
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

// disturb ends backends on every node and restarts a node now and then, until ctx ends.
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
			// Not cancelled: a node that is down stays down.
			err := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command+" "+strconv.Itoa(n%len(c.own))).Run()
			if err == nil {
				restarts.Add(1)
			}
			return err
		})
	}
	return ended, restarts
}

// repeat does something again and again while nobody settles the books. An error is that of a
// node that is being restarted.
func (c *cluster) repeat(ctx context.Context, around *sync.WaitGroup, pause func() time.Duration, do func(n int) error) {
	around.Go(func() {
		for n := 0; lab.Pause(ctx, pause()); n++ {
			c.disturbing.RLock()
			_ = do(n)
			c.disturbing.RUnlock()
		}
	})
}
