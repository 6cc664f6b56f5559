package outside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
	"github.com/tooldedup/dedup/proof/internal/chaos/score"
)

// trial is one run of an arm.
type trial struct {
	arm  *arm
	form form
	ops  int
	seed uint64
	lab  *lab.Lab
	say  func(format string, args ...any)

	db       *lab.Database
	provider *provider
	workers  []*worker
	books    *books
	calm     atomic.Bool

	verdict  verdict
	judged   bool
	restarts map[string]int
	calling  time.Duration
	took     time.Duration
}

// open makes the database, the provider and the workers.
func (t *trial) open(ctx context.Context) (err error) {
	if t.db, err = t.lab.Create(ctx); err != nil {
		return err
	}
	if _, err = t.db.Pool.Exec(ctx, localSchema); err != nil {
		return err
	}
	if t.provider, err = startProvider(t.arm, t.form, t.seed); err != nil {
		return err
	}
	t.books = newBooks()
	return nil
}

func (t *trial) close(ctx context.Context) {
	for _, w := range t.workers {
		_ = w.leave()
	}
	if t.provider != nil {
		t.provider.close()
	}
	if t.db != nil {
		_ = t.db.Drop(ctx)
	}
}

// hire starts a worker process that calls every operation.
func (t *trial) hire(ctx context.Context, n, tries int) *worker {
	rng := rand.New(rand.NewPCG(t.seed, uint64(n)))
	w := &worker{
		n: n, books: t.books, rng: rng, calm: t.calm.Load, most: t.form.callers, tries: tries, todo: shuffled(t.ops, rng),
		hello: hello{
			URL: t.db.URL, Provider: t.provider.URL, Arm: t.arm.name, Lease: t.form.lease, Bound: t.form.bound, Conns: t.form.conns,
			Kill: t.form.kill, Pause: t.form.pause, Seed: t.seed + uint64(n)*1000,
		},
	}
	w.start(ctx)
	return w
}

// call has every operation called by every worker, under all faults.
func (t *trial) call(ctx context.Context) error {
	began := time.Now()
	for n := range workers {
		t.workers = append(t.workers, t.hire(ctx, n, tries))
	}
	outages, end := context.WithCancel(ctx)
	var breaking sync.WaitGroup
	if t.arm.outages {
		breaking.Go(func() {
			for wait(outages, leases(betweenOutages/2, t.form.lease)) == nil {
				t.provider.breakDown()
				_ = wait(outages, leases(outage+betweenOutages/2, t.form.lease))
			}
		})
	}
	defer breaking.Wait()
	defer end()
	err := awaitCalled(ctx, t.workers, t.form.limit)
	t.calling = time.Since(began)
	return err
}

// settle waits in calm until nothing is due any more, has every operation called once
// more, and judges.
func (t *trial) settle(ctx context.Context) error {
	t.provider.calmDown()
	t.calm.Store(true)
	t.db.Pool.Reset() // its connections are dead
	if err := t.workers[1].leave(); err != nil {
		return err
	}
	t.workers = t.workers[:1]
	if err := t.drain(ctx); err != nil {
		return err
	}
	for _, w := range t.workers {
		if err := w.leave(); err != nil {
			return err
		}
	}
	t.workers = []*worker{t.hire(ctx, workers, lastTries)}
	if err := awaitCalled(ctx, t.workers, t.form.limit); err != nil {
		return err
	}
	return t.judge(ctx)
}

const (
	// drainLimit is how long it may take until nothing is due, in leases.
	drainLimit = 120
	// lastTries is how often the last call of an operation is made that gets no answer.
	lastTries = 10
	// looked is how many leases after the last attempt a look must have been made for a
	// parked operation, in the long form.
	looked = 6
)

// drain waits until nothing is due: no operation is open, no audit, and for what is parked
// a look was made after all that may have happened.
func (t *trial) drain(ctx context.Context) error {
	limit, parked := leases(drainLimit, t.form.lease), leases(looked, t.form.lease)
	if t.form.short {
		parked = 0
	}
	for began := time.Now(); ; {
		var open int
		err := t.db.Pool.QueryRow(ctx, `SELECT count(*) FROM tool_effect
			WHERE state IN ('pending', 'running')
			   OR due_at IS NOT NULL AND (state = 'done' OR changed_at < sent_until + $1::interval)`, parked).Scan(&open)
		if err != nil {
			return fmt.Errorf("waiting for what is due: %w", err)
		}
		if open == 0 {
			return nil
		}
		if time.Since(began) > limit {
			return fmt.Errorf("%d operations are still due after %v of calm", open, limit)
		}
		if err := wait(ctx, t.form.lease/4); err != nil {
			return err
		}
	}
}

// judge compares all books.
func (t *trial) judge(ctx context.Context) error {
	local, err := t.local(ctx)
	if err != nil {
		return err
	}
	if t.arm.control == leaseThenAgain { // it has no rows
		for _, effects := range t.provider.effects(t.arm.name) {
			t.verdict.Operations++
			if len(effects) > 1 {
				t.verdict.Twice++
				t.verdict.Silent++
				t.verdict.Extra += len(effects) - 1
			}
		}
	} else {
		effects := map[string]map[int][]effect{}
		for _, tool := range t.arm.tools() {
			rows, err := t.rows(ctx, tool)
			if err != nil {
				return err
			}
			effects[tool] = t.provider.effects(tool)
			f := facts{ops: t.ops, rows: rows, effects: effects[tool], local: local[tool]}
			if !t.arm.saga {
				f.told = t.books.told
			}
			t.verdict.judge(t.arm, t.form, f)
		}
		if t.arm.saga {
			t.verdict.judgeSaga(t.ops, t.books.told, effects, local)
		}
	}
	for _, text := range t.books.errs {
		t.verdict.Differing++
		t.verdict.say("an error that no call may get: %s", text)
	}
	t.judged = true
	return nil
}

func (t *trial) rows(ctx context.Context, tool string) (map[int]row, error) {
	found, err := t.db.Pool.Query(ctx, `SELECT e.key::int, e.state, d.outcome, d.result::text, e.twice IS NOT NULL, e.due_at IS NOT NULL, e.sent_at, e.changed_at, e.note
		FROM tool_effect AS e LEFT JOIN tool_dedup AS d USING (scope, tool, key) WHERE e.tool = $1`, tool)
	if err != nil {
		return nil, fmt.Errorf("reading the operations: %w", err)
	}
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("reading the operations: %w", err)
	}
	rows := map[int]row{}
	for _, r := range all {
		rows[r.Op] = r
	}
	return rows, nil
}

// local reads the application's own table, by tool and operation.
func (t *trial) local(ctx context.Context) (map[string]map[int]written, error) {
	found, err := t.db.Pool.Query(ctx, `SELECT tool, op, kind, count(*)::int, min(ref) FROM local GROUP BY 1, 2, 3`)
	if err != nil {
		return nil, fmt.Errorf("reading the local writes: %w", err)
	}
	all := map[string]map[int]written{}
	var tool, kind, ref string
	var op, n int
	_, err = pgx.ForEachRow(found, []any{&tool, &op, &kind, &n, &ref}, func() error {
		if all[tool] == nil {
			all[tool] = map[int]written{}
		}
		w := all[tool][op]
		switch kind {
		case begun:
			w.Begun = n
		case finished:
			w.Finished, w.Ref = n, ref
		case declined:
			w.Declined = n
		}
		all[tool][op] = w
		return nil
	})
	return all, err
}

// figures are a trial's details in the score.
type figures struct {
	verdict
	Calls    int            `json:"calls"`
	Kills    int            `json:"kills"`
	Pauses   int            `json:"pauses"`
	Between  int            `json:"pauses_between_check_and_send"`
	Restarts int            `json:"restarts"`
	Faults   map[string]int `json:"provider"`
	Steps    map[string]int `json:"steps"`
	KillsAt  map[string]int `json:"kills_at"`
	Calling  float64        `json:"calling_seconds"`
	Seconds  float64        `json:"seconds"`
	Said     []string       `json:"said,omitempty"`
}

// enter enters what became of the trial in the score.
func (t *trial) enter(s *score.Score) {
	if !t.judged {
		return
	}
	v := t.verdict
	g := figures{
		verdict: v, Calls: t.books.calls, Kills: sum(t.books.kills), Pauses: sum(t.books.pauses), Between: t.books.pauses[dedup.ExternalSending],
		Restarts: sum(t.restarts), Faults: t.provider.applied(), Steps: texts(t.books.steps), KillsAt: texts(t.books.kills),
		Calling: t.calling.Seconds(), Seconds: t.took.Seconds(), Said: v.said,
	}
	s.Details[t.arm.name] = g
	t.say("%s: %d operations in %.0f s, %d kills, %d pauses, %d restarts: %d twice (%d silent), %d lost, %d ghosts, %d local writes off, %d differing, parked %d that happened and %d that did not, %d wrongly, %d open, %d broken sagas",
		t.arm.name, t.ops, g.Seconds, g.Kills, g.Pauses, g.Restarts, v.Twice, v.Silent, v.Lost, v.Ghosts, v.Local, v.Differing, v.ParkedHappened, v.ParkedNot, v.Parked, v.Open, v.Sagas)
	tally := score.Tally{
		Identities: v.Operations, Duplicates: v.Twice, Lost: v.Lost, Differing: v.Ghosts + v.Local + v.Differing + v.Sagas, Unanswered: v.Parked + v.Open,
	}
	faults := g.Kills + g.Pauses + g.Restarts + sum(g.Faults)
	if t.arm.control != right {
		s.ControlCalls += g.Calls
		s.ControlFaults += faults
		s.Control.Add(tally)
		return
	}
	for _, line := range v.said {
		t.say("%s: %s", t.arm.name, line)
	}
	s.Calls += g.Calls
	s.Faults += faults
	s.Add(tally)
	s.FaultsByKind["SIGKILL"] += g.Kills
	s.FaultsByKind["SIGSTOP"] += g.Pauses
	s.FaultsByKind["SIGSTOP between check and send"] += g.Between
	for _, kinds := range [...]map[string]int{t.restarts, g.Faults} {
		for kind, n := range kinds {
			s.FaultsByKind[kind] += n
		}
	}
}

// errTame is that a control arm did not go wrong.
var errTame = errors.New("the control arm did not go wrong, so the campaign would not notice if the library did")

// check is what is wrong with a control arm.
func (t *trial) check() error {
	switch {
	case t.arm.control == right || !t.judged:
		return nil
	case t.verdict.Twice == 0:
		return fmt.Errorf("%s: %w", t.arm.name, errTame)
	case t.arm.control == settlesEarly && t.verdict.Silent > 0:
		return fmt.Errorf("%s: %d operations happened twice and were not reported", t.arm.name, t.verdict.Silent)
	}
	return nil
}

func sum[K comparable](counts map[K]int) (all int) {
	for n := range maps.Values(counts) {
		all += n
	}
	return all
}

func texts(counts map[dedup.ExternalStep]int) map[string]int {
	all := map[string]int{}
	for step, n := range counts {
		all[string(step)] = n
	}
	return all
}
