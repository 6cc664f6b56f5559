package outside

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

const (
	// kills and halts are the odds of a kill and of a halt at a step.
	kills, halts = 0.001, 0.0005
	// sendingShare multiplies the odds of a halt between check and send, and earlierShare those of
	// a kill of the earlier release: its operations are under way only after a kill.
	sendingShare, earlierShare = 4, 8
	// shortestHalt and longestHalt bound a halt, in leases.
	shortestHalt, longestHalt = 0.3, 3
)

// TraceCallStart and TraceCallEnd implement [dedup.Tracer].
func (*caller) TraceCallStart(ctx context.Context, _ dedup.CallData) context.Context { return ctx }
func (*caller) TraceCallEnd(context.Context, dedup.CallEndData)                      {}

// TraceEvent implements [dedup.Tracer].
func (c *caller) TraceEvent(_ context.Context, event dedup.Event) {
	e, ok := event.(external.Event)
	if !ok {
		return
	}
	if e.Kind == external.EventClaimed {
		c.claimed.Store(e.Tool+" "+e.Key, time.Now())
	}
	c.at(e.Kind)
}

// claimedAt is the time at which the call's attempt was claimed. The clock was read before the last
// check of the lease.
func (c *caller) claimedAt(tool, key string) (at time.Time) {
	if stored, ok := c.claimed.Load(tool + " " + key); ok {
		at = stored.(time.Time)
	}
	return at
}

// at kills or halts this process at a step, by chance.
func (c *caller) at(step external.EventKind) {
	if c.Calm {
		return
	}
	kill, halt := kills, halts
	if c.earlier() {
		kill *= earlierShare
	}
	if step == external.EventSending {
		halt *= sendingShare
	}
	switch drawn := rand.Float64(); {
	case drawn < kill:
		c.tell("SIGKILL at " + string(step))
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	case drawn < kill+halt:
		c.tell("SIGSTOP at " + string(step))
		pause := leases(shortestHalt + rand.Float64()*(longestHalt-shortestHalt))
		halting := exec.Command("sh", "-c", `kill -STOP "$0" && sleep "$1"; kill -CONT "$0"`, fmt.Sprint(os.Getpid()), fmt.Sprint(pause.Seconds()))
		if err := halting.Run(); err != nil {
			log.Fatal("halting this process: ", err)
		}
	}
}

// tell tells the campaign of the fault that follows.
func (c *caller) tell(kind string) {
	if res, err := http.Post(c.Provider+"/faults?kind="+url.QueryEscape(kind), "", nil); err == nil { // or the campaign has ended
		_ = res.Body.Close()
	}
}
