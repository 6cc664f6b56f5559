package agentkill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/process"
)

// campaign has the runs of one agent in one database.
type campaign struct {
	agent, url string
	pool       *pgxpool.Pool
	stderr     io.Writer
}

// run is a request of a user.
type run struct {
	scope string
	// anew gives each start a new session.
	anew bool
	// dies reports whether the process of a start dies at a step, the nth of the start.
	dies func(start, n int, step string) bool
}

// ended is the end of a run.
type ended struct {
	starts int
	steps  []string // of the last start
	text   string
}

func (e *ended) kills() int { return e.starts - 1 }

// finish starts a run until it ends.
func (c *campaign) finish(r run) (e ended, err error) {
	for {
		session := "17/5"
		if r.anew {
			session = fmt.Sprintf("17/5, start %d", e.starts)
		}
		last, steps, err := c.start(errand{c.agent, c.url, r.scope, session}, func(n int, step string) bool { return r.dies(e.starts, n, step) })
		e.starts++
		switch {
		case err != nil:
			return e, err
		case !last.Ended:
			continue
		case last.Fail != "":
			return e, errors.New(last.Fail)
		}
		e.steps, e.text = steps, last.Text
		return e, nil
	}
}

// start makes one start. A process that was killed has not Ended.
func (c *campaign) start(e errand, dies func(n int, step string) bool) (last line, steps []string, err error) {
	lines := make(chan line, 1) // a process waits at each for an answer
	p, err := process.Start(process.Command{Env: []string{childEnv + "=1"}, Stderr: c.stderr}, e, func(l line) { lines <- l })
	if err != nil {
		return line{}, nil, err
	}
	go func() {
		<-p.Done()
		close(lines)
	}()
	killed := false
	for l := range lines {
		switch {
		case l.Ended:
			last = l
		case dies(len(steps)+1, l.Step):
			killed = true
			p.Kill()
		default:
			steps = append(steps, l.Step)
			if p.Send(true) != nil {
				p.Kill() // it has died by itself
			}
		}
	}
	if !killed && !last.Ended {
		return line{}, nil, fmt.Errorf("a process has ended by itself: %w", p.Err())
	}
	return last, steps, nil
}

// check compares the effects of a run with what its model was told.
func (c *campaign) check(ctx context.Context, scope, text string) error {
	written, err := c.written(ctx, scope)
	if err != nil {
		return err
	}
	if len(written) != messages*perMessage {
		return fmt.Errorf("%d effects for %d calls: %v", len(written), messages*perMessage, written)
	}
	var told []ticket
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return fmt.Errorf("the model was told %s: %w", text, err)
	}
	titles, ids := map[string]bool{}, map[int]string{}
	for _, t := range written {
		titles[t.Title], ids[t.ID] = true, t.Title
	}
	for i := range messages * perMessage {
		if !titles[title(i)] {
			return fmt.Errorf("%s has no effect: %v", title(i), written)
		}
	}
	for _, t := range told {
		if ids[t.ID] != t.Title {
			return fmt.Errorf("the model was told %v, and recorded is %v", told, written)
		}
		delete(ids, t.ID)
	}
	if len(ids) > 0 {
		return fmt.Errorf("the model was told %v, and recorded is %v", told, written)
	}
	return nil
}

// written returns the effects of a run.
func (c *campaign) written(ctx context.Context, scope string) ([]ticket, error) {
	rows, err := c.pool.Query(ctx, `SELECT id, title FROM tickets WHERE account = $1 ORDER BY id`, scope)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[ticket])
}
