package citus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
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
func (c *cluster) faults() map[string]int {
	all := map[string]int{}
	for _, proxy := range c.clients {
		for kind, n := range proxy.Snapshot().Faults {
			all[string(kind)] += n
		}
	}
	for _, proxy := range c.workers {
		for kind, n := range proxy.Snapshot().Faults {
			all["between nodes: "+string(kind)] += n
		}
	}
	return all
}

// disturb ends backends on every node and restarts a node now and then, until ctx ends.
func (c *cluster) disturb(ctx context.Context, around *sync.WaitGroup, seed uint64, every time.Duration) (ended []*atomic.Int64, restarts *atomic.Int64) {
	for i, node := range c.own {
		ended = append(ended, lab.Terminate(ctx, around, &lab.Database{Pool: node}, 400*time.Millisecond, seed+uint64(i)))
	}
	restarts = &atomic.Int64{}
	command := os.Getenv(RestartVariable)
	if command == "" {
		return ended, restarts
	}
	around.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
			c.restarting.Lock()
			// Not cancelled: a node that is down stays down.
			err := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", command+" "+strconv.Itoa(n%len(c.own))).Run()
			c.restarting.Unlock()
			if err == nil {
				restarts.Add(1)
			} else {
				fmt.Fprintln(os.Stderr, "restarting a node:", err)
			}
		}
	})
	return ended, restarts
}
