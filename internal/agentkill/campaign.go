package agentkill

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// atOnce is the number of runs at once.
const atOnce = 4

// longKills is the number of kills of TestLong.
const longKills = 1000

// Test kills a run at each of its steps, and checks that every effect happened once and every
// answer is the recorded one. The control gives each start of the same program a new session, so
// that no start finds a record of another: its effects double. schema makes the agent's own tables.
func Test(t *testing.T, agent string, schema ...string) {
	t.Helper()
	c := newCampaign(t, agent, schema)
	steps := c.undisturbed(t)
	var kills atomic.Int64
	c.each(t, len(steps), func(i int) error {
		return c.survive(t, fmt.Sprint("killed at step ", i), func(start, n int, _ string) bool { return start == 0 && n == i+1 }, func(n int) {
			if n != 1 {
				t.Errorf("killed %d times at step %d", n, i+1)
			}
			kills.Add(int64(n))
		})
	})
	t.Logf("%s: %d kills, each at another step: every effect once", agent, kills.Load())
	c.control(t, steps)
}

// TestLong kills runs at steps drawn at random, most of them several times, until there were 1,000
// kills.
func TestLong(t *testing.T, agent string, schema ...string) {
	t.Helper()
	c := newCampaign(t, agent, schema)
	steps := c.undisturbed(t)
	seed := rand.Uint64()
	t.Logf("%s: seed %d", agent, seed)
	var kills, runs, most atomic.Int64
	c.each(t, atOnce, func(worker int) error {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		for kills.Load() < longKills {
			last, dieAt := -1, 0
			scope := fmt.Sprint("run ", runs.Add(1))
			err := c.survive(t, scope, func(start, n int, _ string) bool {
				if start != last {
					last, dieAt = start, 1+random.IntN(len(steps))
				}
				return n == dieAt
			}, func(n int) {
				kills.Add(int64(n))
				most.Store(max(most.Load(), int64(n)))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("%s: %d kills in %d runs, up to %d in one: every effect once", agent, kills.Load(), runs.Load(), most.Load())
	c.control(t, steps)
}

func newCampaign(t *testing.T, agent string, schema []string) *campaign {
	t.Helper()
	db := pgtest.New(t)
	c := &campaign{agent: agent, url: db.URL, pool: db.Pool(t), stderr: t.Output()}
	for _, statement := range append(schema, `CREATE TABLE tickets (id int GENERATED ALWAYS AS IDENTITY, account text, title text)`) {
		_, err := c.pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	return c
}

// undisturbed finishes a run without a kill and returns its steps. It starts the run again after
// its end: that start answers the same and writes nothing.
func (c *campaign) undisturbed(t *testing.T) []string {
	t.Helper()
	whole := run{scope: "undisturbed", dies: func(int, int, string) bool { return false }}
	first, err := c.finish(whole)
	require.NoError(t, err)
	require.NoError(t, c.check(t.Context(), whole.scope, first.text))
	again, err := c.finish(whole)
	require.NoError(t, err)
	require.NoError(t, c.check(t.Context(), whole.scope, again.text))
	const least = messages*(1+3*perMessage) + 1
	require.GreaterOrEqual(t, len(first.steps), least, "%q", first.steps)
	return first.steps
}

// survive finishes a run and checks it.
func (c *campaign) survive(t *testing.T, scope string, dies func(start, n int, step string) bool, killed func(n int)) error {
	e, err := c.finish(run{scope: scope, dies: dies})
	if err == nil {
		err = c.check(t.Context(), scope, e.text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", scope, err)
	}
	killed(e.kills())
	return nil
}

// control kills runs, each after another commit of an effect. Each start has a new session.
func (c *campaign) control(t *testing.T, steps []string) {
	t.Helper()
	var kills, effects atomic.Int64
	c.each(t, messages*perMessage, func(i int) error {
		scope, seen := fmt.Sprint("control ", i), 0
		e, err := c.finish(run{scope: scope, anew: true, dies: func(start, _ int, step string) bool {
			if strings.HasSuffix(step, committed) {
				seen++
			}
			return start == 0 && seen == i+1
		}})
		if err != nil {
			return err
		}
		written, err := c.written(t.Context(), scope)
		kills.Add(int64(e.kills()))
		effects.Add(int64(len(written)))
		return err
	})
	wanted := int64(messages * perMessage * messages * perMessage)
	t.Logf("%s: the control was killed %d times, and has %d effects for %d calls", c.agent, kills.Load(), effects.Load(), wanted)
	require.Greater(t, effects.Load(), wanted)
}

// each makes n jobs, a few at once.
func (c *campaign) each(t *testing.T, n int, job func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	jobs := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range jobs {
				if err := job(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
