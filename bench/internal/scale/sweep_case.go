package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
)

// SweepCaseOptions say how sweeps that meet something are measured.
type SweepCaseOptions struct {
	Records int           // that may be forgotten
	Time    time.Duration // how long a case lasts, and the calm beside it; 0 leaves the cases away
	Rounds  int           // into which both are divided, in turn
}

func (o SweepCaseOptions) round() time.Duration { return o.Time / time.Duration(o.Rounds) }

// SweepCase is what a sweep meets.
type SweepCase string

// The cases. In all of them a sweep that nothing stops runs too.
const (
	LockedRows    SweepCase = "rows that are locked"     // by one tenant's DoTx, and by a SELECT FOR UPDATE
	FrozenSweeper SweepCase = "a sweeper that is frozen" // one in front of its DELETE, one behind it
	SlowArchive   SweepCase = "a hook that hangs"        // within IdleTimeout, in every batch
	TwoSweepers   SweepCase = "a second sweeper"
)

// SweepCaseRow is what other tenants' calls notice of one case. No two of them have one
// identity. Half of all are Do, half DoStatement.
type SweepCaseRow struct {
	Case      SweepCase `json:"case"`
	Forgotten int64     `json:"forgotten"` // records, by the sweeps that ended
	// Firsts are first calls, Anews calls that use an identity anew whose record may be
	// forgotten.
	Firsts Beside `json:"first_calls"`
	Anews  Beside `json:"calls_anew"`
	// InFlight counts calls that were answered ErrInFlight. None of them has a twin.
	InFlight int64 `json:"in_flight_without_twin"`
	// Held are calls, one a batch, that use anew an identity which a hook has locked. They
	// wait for its transaction.
	Held measure.Latency `json:"held"`
}

// Beside is a load of calls in the rounds in which nothing is swept, and in those of the
// case.
type Beside struct {
	Quiet  measure.Latency `json:"quiet"`
	During measure.Latency `json:"during"`
}

// P99Ratio is the p99 during the case to that of the quiet.
func (b Beside) P99Ratio() float64 { return ratio(b.During.P99, b.Quiet.P99) }

// caseTenants share the records of a case. The first has what is locked, the others call.
const caseTenants = 8

func (s stand) sweepCases(ctx context.Context, pool *pgxpool.Pool, o SweepOptions) (rows []SweepCaseRow, err error) {
	for _, met := range []SweepCase{LockedRows, FrozenSweeper, SlowArchive, TwoSweepers} {
		s.say("a sweep of %d records meets %s", o.Cases.Records, met)
		row, err := s.sweepCase(ctx, pool, o, met)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", met, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// sweepCase keeps both loads up while calm and the case take turns.
func (s stand) sweepCase(ctx context.Context, pool *pgxpool.Pool, o SweepOptions, met SweepCase) (SweepCaseRow, error) {
	row := SweepCaseRow{Case: met}
	// A call does not wait for twins: it is answered ErrInFlight at once.
	t, err := s.dueTable(ctx, pool, filling{records: o.Cases.Records, tenants: caseTenants}, Forgets, dedup.Options{MaxWait: -1})
	if err != nil {
		return row, err
	}
	l := &caseLoad{t: t}
	if err := l.takeForgotten(ctx); err != nil {
		return row, err
	}
	if _, err := drive(ctx, o.Clients, o.Clients*warmCalls, l.first); err != nil {
		return row, err
	}

	disturb := &disturbance{stand: s, t: t, l: l, o: o}
	var turns []caseTurn
	work := func() error {
		for range o.Cases.Rounds {
			turn := caseTurn{calm: time.Now()}
			if err := wait(ctx, o.Cases.round()); err != nil {
				return err
			}
			turn.begun = time.Now()
			if err := disturb.run(ctx, met); err != nil {
				return err
			}
			turn.ended = time.Now()
			turns = append(turns, turn)
		}
		return nil
	}
	load := pace{rate: o.Rate / 2, clients: o.Clients}
	var firsts, anews []outcome
	firsts, err = load.while(ctx, l.first, func() (err error) {
		anews, err = load.while(ctx, l.anew, work)
		return err
	})
	if err != nil {
		return row, err
	}
	row.Firsts, row.Anews = beside(firsts, turns), beside(anews, turns)
	row.InFlight, row.Forgotten = l.inFlight.Load(), disturb.forgotten.Load()
	held := disturb.held.take()
	row.Held = sampleOf(held, o.Cases.Time).Latency()
	return row, firstError(held)
}

// caseTurn is one round: calm, and then the case.
type caseTurn struct{ calm, begun, ended time.Time }

func beside(all []outcome, turns []caseTurn) Beside {
	var quiet, during measure.Sample
	for _, turn := range turns {
		quiet = quiet.And(between(all, turn.calm, turn.begun))
		during = during.And(between(all, turn.begun, turn.ended))
	}
	return Beside{Quiet: quiet.Latency(), During: during.Latency()}
}

// caseLoad makes the calls beside a case.
type caseLoad struct {
	t         *tool
	forgotten []caseIdentity // to be used anew, in no order
	anews     atomic.Int64   // of them that were
	firsts    atomic.Int64
	inFlight  atomic.Int64
}

type caseIdentity struct{ Scope, Key string }

// takeForgotten takes the identities of other tenants.
func (l *caseLoad) takeForgotten(ctx context.Context) error {
	rows, err := l.t.pool.Query(ctx, `
		SELECT scope, key
		  FROM `+pgx.Identifier{sweepSchema, "tool_dedup"}.Sanitize()+`
		 WHERE scope <> $1
		 ORDER BY random()`, tenant(0))
	if err != nil {
		return err
	}
	l.forgotten, err = pgx.CollectRows(rows, pgx.RowToStructByPos[caseIdentity])
	return err
}

func (l *caseLoad) first(ctx context.Context) error {
	n := int(l.firsts.Add(1))
	key := OrderedKeys.newKey(time.Now()) //dedupvet:ignore a measured call is made once
	return l.call(ctx, n, caseIdentity{tenant(1 + n%(caseTenants-1)), key})
}

func (l *caseLoad) anew(ctx context.Context) error {
	n := int(l.anews.Add(1))
	if n > len(l.forgotten) {
		return fmt.Errorf("all of %d forgotten identities are used: --case-records must be larger, or --rate smaller", len(l.forgotten))
	}
	return l.call(ctx, n, l.forgotten[n-1])
}

// call alternates between Do and DoStatement. An answer that claims a twin is counted.
func (l *caseLoad) call(ctx context.Context, n int, id caseIdentity) (err error) {
	call := ticketCall(id.Key)
	call.Scope = id.Scope
	if n%2 == 0 {
		_, err = dedup.Do(ctx, l.t.d, call, l.t.effectOf(id.Key))
	} else {
		_, err = dedup.DoStatement[ticket](ctx, l.t.d, call, dedup.SQL(l.t.insert+`, 'printer on fire' AS title`, id.Key))
	}
	if errors.Is(err, dedup.ErrInFlight) {
		l.inFlight.Add(1)
		return nil
	}
	return err
}

func tenant(n int) string { return fmt.Sprintf("tenant-%d", n) }

func caseGoals(rows []SweepCaseRow) (goals []Goal) {
	for _, row := range rows {
		goals = append(goals,
			atMost(fmt.Sprintf("p99 of first calls to calm, the sweep meets %s", row.Case), 2, row.Firsts.P99Ratio()),
			atMost(fmt.Sprintf("p99 of calls anew to calm, the sweep meets %s", row.Case), 2, row.Anews.P99Ratio()),
			atMost(fmt.Sprintf("ErrInFlight without a twin, the sweep meets %s", row.Case), 0, float64(row.InFlight)))
	}
	return goals
}

// inFlight is an error where calls were told of twins that there were not.
func inFlight(rows []SweepCaseRow) error {
	i := slices.IndexFunc(rows, func(row SweepCaseRow) bool { return row.InFlight > 0 })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("a sweep met %s, and %d calls without a twin were answered ErrInFlight", rows[i].Case, rows[i].InFlight)
}
