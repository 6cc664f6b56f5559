package deduptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/process"
)

func (sc *scene) processKilled() {
	s := sc.open(sc.v.tool, nil)
	if s == nil {
		return
	}
	for n := range sc.v.plan.units {
		if !sc.killedAt(s, n+1, "had not reached the server", faultproxy.Hold) {
			return // no process can be started, and the next one could not either
		}
	}
	sc.killedAt(s, sc.v.plan.deciding, "was executed", faultproxy.ReplyDelayed)
}

// killedAt is a case in which the process that calls is killed while the nth
// statement is held, and this one calls again. It is false when no process can
// be started.
func (sc *scene) killedAt(s *stage, n int, where string, kind faultproxy.Kind) bool {
	what := fmt.Sprintf("killed when %s %s", sc.v.plan.name(n), where)
	key := sc.v.newKey()
	victim, err := sc.v.startChild(s.proxy, key)
	if err != nil {
		sc.out.failf("%s: nothing was tested: %v", what, err)
		return false
	}
	defer victim.Kill()
	tr := sc.begin("%s", what)
	defer tr.end()
	tr.key = key

	held := s.held(n, kind)
	defer held.Release()
	if !tr.reached(held, victim.call(tr)) {
		return true
	}
	victim.Kill()
	held.Release()
	tr.applied(held)
	tr.insist(s)
	tr.insist(s)
	return true
}

// childStart bounds how long a process may take until it has warmed up.
const childStart = time.Minute

// child is a process that calls the tool.
type child struct {
	*process.Process
	said chan message
}

// startChild starts this very program again and waits until it has warmed up.
func (v *verification) startChild(p *faultproxy.Proxy, key string) (*child, error) {
	if !testing.Testing() {
		return nil, errors.New("only a test binary can be started again; turn the scenario off by Options.Without")
	}
	text, err := json.Marshal(errand{Tool: v.tool.Name, URL: p.URL(), WarmUp: v.newKey(), Key: key, Patience: v.patience})
	if err != nil {
		return nil, err
	}
	v.counted = -1
	c := &child{said: make(chan message, 2)}
	var wrote bytes.Buffer
	command := process.Command{Args: []string{"-test.run=^$"}, Env: []string{childEnv + "=" + string(text)}, Stderr: &wrote}
	if c.Process, err = process.Start(command, nil, func(m message) { c.said <- m }); err != nil {
		return nil, fmt.Errorf("starting the test binary again: %w", err)
	}
	late := time.NewTimer(childStart)
	defer late.Stop()
	m := c.next(late.C, "the test binary, started again, did not make the call; call deduptest.Child at the beginning of TestMain, or turn the scenario off by Options.Without")
	if m.Ready {
		return c, nil
	}
	c.Kill()
	if told := strings.TrimSpace(wrote.String()); told != "" {
		m.Err += "; it wrote: " + clipped(told, 500)
	}
	return nil, errors.New(m.Err)
}

// call lets the process make the call that counts.
func (c *child) call(tr *trial) <-chan reply {
	tr.out.Calls++
	replies := make(chan reply, 1)
	go func() {
		if err := c.Send("go"); err != nil {
			replies <- reply{err: fmt.Errorf("the process has ended: %w", err)}
			return
		}
		m := c.next(nil, "the process ended without an answer")
		if m.Err != "" {
			replies <- reply{err: errors.New(m.Err)}
			return
		}
		replies <- reply{text: m.Answer}
	}()
	return replies
}

// next returns what the process says next. Where it ends before, that is why.
func (c *child) next(late <-chan time.Time, ended string) message {
	select {
	case m := <-c.said:
		return m
	case <-late:
		return message{Err: fmt.Sprintf("the test binary, started again, did not come to the call within %s; call deduptest.Child before anything else in TestMain", childStart)}
	case <-c.Done():
	}
	select {
	case m := <-c.said: // its last words
		return m
	default:
		return message{Err: ended}
	}
}
