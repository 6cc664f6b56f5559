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
		if !sc.killedAt(s, n+1, "had not reached the server", faultproxy.Hold) { // no process can be started
			return // no process can be started, and the next one could not either
		}
	}
	sc.killedAt(s, sc.v.plan.deciding, "was executed", faultproxy.ReplyDelayed)
}

// killedAt is a case in which the calling process is killed while its nth statement is held, and
// this process calls again. It returns false if no process can be started.
func (sc *scene) killedAt(s *stage, n int, where string, kind faultproxy.Kind) bool {
	what := fmt.Sprintf("killed when %s %s", sc.v.plan.name(n), where)
	victim, err := sc.v.startChild(s.proxy)
	if err != nil {
		sc.out.failf("%s: nothing was tested: %v", what, err)
		return false
	}
	defer victim.Kill()
	tr := sc.begin("%s", what)
	defer tr.end()
	held := s.held(n, kind)
	defer held.Release()
	if !tr.reached(held, victim.call(tr)) {
		return true
	}
	victim.Kill()
	held.Release()
	tr.applied(held)
	tr.callUntilAnswered(s)
	tr.callUntilAnswered(s)
	return true
}

// childStart bounds the time from the start of a process to its first reply.
const childStart = time.Minute

// child is a process that calls the tool.
type child struct {
	*process.Process
	replies chan reply
}

// startChild starts this program again and waits for its first reply.
func (v *verification) startChild(p *faultproxy.Proxy) (*child, error) {
	if !testing.Testing() {
		return nil, errors.New("only a test binary can be started again; turn the scenario off by Options.Without")
	}
	text, err := json.Marshal(errand{Tool: v.tool.Name, URL: p.URL(), Patience: v.patience})
	if err != nil {
		return nil, err
	}
	v.counted = -1
	c := &child{replies: make(chan reply, 3)} // two replies and the end of the process
	var wrote bytes.Buffer
	command := process.Command{Args: []string{"-test.run=^$"}, Env: []string{childEnv + "=" + string(text)}, Stderr: &wrote}
	c.Process, err = process.Start(command, nil, func(m message) {
		r := reply{text: m.Answer}
		if m.Err != "" {
			r.err = errors.New(m.Err)
		}
		c.replies <- r
	})
	if err != nil {
		return nil, fmt.Errorf("starting the test binary again: %w", err)
	}
	go func() {
		<-c.Done()
		c.replies <- reply{err: errors.New("the process ended without an answer")}
	}()
	c.send(v.newKey())
	select {
	case r := <-c.replies:
		err = r.err
	case <-time.After(childStart):
		err = fmt.Errorf("it takes longer than %s", childStart)
	}
	if err == nil {
		return c, nil
	}
	c.Kill()
	err = fmt.Errorf("the test binary, started again, did not make a first call; call deduptest.Child at the beginning of TestMain, or turn the scenario off by Options.Without: %w", err)
	if told := strings.TrimSpace(wrote.String()); told != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, clipped(told, 500))
	}
	return nil, err
}

// call lets the process make the case's call.
func (c *child) call(tr *trial) <-chan reply {
	tr.out.Calls++
	c.send(tr.key)
	return c.replies
}

// send asks the process for a call. If the process has ended, its end is the reply.
func (c *child) send(key string) { _ = c.Send(key) }
