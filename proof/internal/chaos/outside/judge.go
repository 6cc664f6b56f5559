package outside

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// books are all the facts at the end of an arm.
type books struct {
	rows    map[operation]row
	effects map[operation][]effect // by the provider's book
	told    map[int]told           // by the callers
}

// operation is a call of a tool.
type operation struct {
	Tool string
	Op   int
}

// row is an operation with its record and the application's writes. State is "" without an
// operation. Outcome and ID are empty without a record.
type row struct {
	operation
	State, Outcome, ID string
	Twice              bool // the library reported it
	Due                bool
	Changed            time.Time
	After              time.Duration // from the first attempt to Changed; negative if no request was sent
	Note               string
	written
}

// written is the number of writes of Finish and Refused, and the ref of Finish.
type written struct {
	Finished, Declined int
	Ref                string
}

// told is the callers' answers of an operation.
type told struct {
	outcome outcome // of the first answer
	id      string
	differs bool // a later answer was different
}

// judge reads all books and compares them.
func (t *trial) judge(ctx context.Context) error {
	effects, _ := t.provider.read()
	b := books{map[operation]row{}, effects, t.told}
	err := lab.Insist(ctx, func(ctx context.Context, _ int) error { // the server may be restarting
		rows, _ := t.db.Pool.Query(ctx, `
			SELECT tool, key::int, COALESCE(e.state, ''), COALESCE(e.outcome, ''),
			       COALESCE(CASE e.outcome WHEN 'done' THEN COALESCE(e.result::json->>'ID', e.result::json->>'Charge') END, ''),
			       e.twice IS NOT NULL, e.due_at IS NOT NULL,
			       COALESCE(e.changed_at, 'epoch'), COALESCE(e.changed_at - e.sent_at, '-1 s'), COALESCE(e.note, ''),
			       COALESCE(l.finished, 0), COALESCE(l.declined, 0), COALESCE(l.ref, '')
			  FROM (SELECT * FROM tool_effect LEFT JOIN tool_dedup USING (scope, tool, key)) AS e
			  FULL JOIN (
			       SELECT tool, op::text AS key, min(ref) FILTER (WHERE kind = 'finish') AS ref,
			              count(*) FILTER (WHERE kind = 'finish')::int AS finished,
			              count(*) FILTER (WHERE kind = 'refused')::int AS declined
			         FROM local
			        GROUP BY tool, op) AS l USING (tool, key)`)
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		for _, r := range all {
			b.rows[r.operation] = r
		}
		return err
	})
	t.verdict.judge(t.arm, t.ops, b)
	return err
}

// wrong is a kind of defect.
type wrong string

const (
	twice  wrong = "twice"  // an operation happened more than once
	silent wrong = "silent" // the library did not report that, or that a refused operation happened
	lost   wrong = "lost"   // it is recorded and did not happen
	ghost  wrong = "ghost"  // it happened without a row, or although it is refused
	local  wrong = "local"  // the local writes are not those of its state
	// It waits for a person although the provider could tell; it never ended; its callers' answers
	// differ from the record; a saga is neither complete nor undone.
	wronglyParked wrong = "wrongly parked"
	open          wrong = "open"
	differing     wrong = "differing"
	brokenSaga    wrong = "broken saga"
)

// verdict is the judgement of an arm.
type verdict struct {
	Wrong  map[wrong]int  `json:"wrong"`
	Became map[string]int `json:"became"` // operations by end
	Said   []string       `json:"said,omitempty"`
}

func newVerdict() verdict { return verdict{Wrong: map[wrong]int{}, Became: map[string]int{}} }

// saidMost is the number of defects that are described.
const saidMost = 20

func (v *verdict) find(w wrong, format string, args ...any) {
	v.Wrong[w]++
	if len(v.Said) < saidMost {
		v.Said = append(v.Said, string(w)+": "+fmt.Sprintf(format, args...))
	}
}

// judge judges all operations of an arm.
func (v *verdict) judge(a arm, ops int, b books) {
	for op := 1; op <= ops; op++ {
		for _, tool := range a.tools() {
			v.operation(a, operation{tool, op}, b)
		}
		if a.Saga {
			v.saga(op, b)
		}
	}
}

func (v *verdict) operation(a arm, of operation, b books) {
	r, effects := b.rows[of], b.effects[of]
	if len(effects) > 1 {
		v.Became["extra effects"] += len(effects) - 1
		v.find(twice, "%v happened %d times, %v; its row is %+v", of, len(effects), effects, r)
	}
	isRefused := r.Outcome == "refused"
	if (len(effects) > 1 || isRefused && len(effects) > 0) && !r.Twice {
		v.find(silent, "%v is not reported", of)
	}
	v.Became["operations"]++
	var want written
	switch {
	case a.Control == leaseThenAgain: // it has no rows
		return
	case r.State == "" && len(effects) > 0:
		v.find(ghost, "%v happened, and there is no row", of)
	case r.State == "" && a.Saga: // the saga ended before this step
		v.Became["operations"]--
	case isRefused:
		v.Became["refused"]++
		want.Declined = 1
		if len(effects) > 0 {
			v.find(ghost, "%v is refused and happened: %v; its row is %+v", of, effects, r)
		}
		v.compare(a, of, told{outcome: refused}, b)
	case r.Outcome != "":
		v.Became["done"]++
		want.Finished, want.Ref = 1, r.ID
		if !slices.ContainsFunc(effects, func(e effect) bool { return e.ID == r.ID }) {
			v.find(lost, "%v is recorded as %q, and the provider's book has %v", of, r.ID, effects)
		}
		v.compare(a, of, told{outcome: happened, id: r.ID}, b)
	case r.State == "parked":
		v.parked(a, r, effects)
	default:
		v.find(open, "%v has the row %+v", of, r)
	}
	if r.written != want {
		v.find(local, "%v should have written %+v; its row is %+v", of, want, r)
	}
}

// compare compares the callers' answers with the record. The callers of a saga get the answer of
// the whole saga.
func (v *verdict) compare(a arm, of operation, recorded told, b books) {
	if got := b.told[of.Op]; got != recorded && !a.Saga {
		v.find(differing, "%v is recorded as %+v, and its callers were told %+v", of, recorded, got)
	}
}

// parked reports whether an operation may be parked.
func (v *verdict) parked(a arm, r row, effects []effect) {
	if len(effects) > 0 {
		v.Became["parked, happened"]++
	} else {
		v.Became["parked, did not"]++
	}
	wrongly := false
	switch {
	case a.Releases: // the earlier release has neither key nor look-up
	case a.Rejects: // a look-up tells, after the provider lists the effect
	case a.KeyKept == forever, a.Find && a.Settles > 0: // both can always tell
		wrongly = true
	case a.Find: // a look-up sees earlier effects
		const look = 4 // the most leases that a look-up takes, with its pause
		wrongly = len(effects) > 0 && (!r.Due || effects[0].at.Add(leases(look)).Before(r.Changed))
	case a.KeyKept > 0: // the key could be sent while the provider kept it
		wrongly = r.After < leases(a.KeyKept-max(2, timeout+1)-a.Settles)
	}
	if wrongly {
		v.find(wronglyParked, "%+v, of which the provider's book has %v", r, effects)
	}
}

// saga compares the states of a saga's steps.
func (v *verdict) saga(op int, b books) {
	finished := func(tool string) int { return b.rows[operation{tool, op}].Finished }
	effects := func(tool string) int { return len(b.effects[operation{tool, op}]) }
	got := [...]int{finished(sagaReserve), effects(sagaCharge), effects(sagaShip), effects(sagaRefund), finished(sagaRelease)}
	told := b.told[op]
	whole := got == [...]int{1, 1, 1, 0, 0} && told.outcome == happened
	back := (got == [...]int{1, 1, 0, 1, 1} || got == [...]int{1, 0, 0, 0, 1}) && told.outcome == undone
	if !whole && !back || told.differs {
		v.find(brokenSaga, "%d has reserve, charge, ship, refund, release %v, and its callers were told %+v", op, got, told)
	}
}
