package outside

import (
	"encoding/json"
	"fmt"
	"time"
)

// facts are all that is known of a tool's operations in the end.
type facts struct {
	ops     int
	rows    map[int]row
	effects map[int][]effect // the provider's books
	local   map[int]written
	told    map[int]told // nil where callers are told of a saga
}

// row is an operation, with its record.
type row struct {
	Op              int
	State           string
	Outcome, Result *string // the record's
	Twice           bool    // it is reported
	Due             bool
	Sent            *time.Time
	Changed         time.Time
	Note            *string
}

func (r row) String() string {
	s := fmt.Sprintf("%s, changed %s", r.State, clock(r.Changed))
	if r.Sent != nil {
		s += ", sent " + clock(*r.Sent)
	}
	for name, text := range map[string]*string{"outcome": r.Outcome, "result": r.Result, "note": r.Note} {
		if text != nil {
			s += fmt.Sprintf(", %s %q", name, *text)
		}
	}
	return s
}

func (e effect) String() string { return e.ID + " at " + clock(e.at) }

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// written is what Finish and Refused have written, and the ref of Finish.
type written struct {
	Finished, Declined int
	Ref                string
}

// verdict is what became of an arm. All of the first block must be 0.
type verdict struct {
	// Twice counts the operations that happened more than once, and Silent those of them, and
	// of the refused ones that happened, that the library does not report.
	Twice  int `json:"twice"`
	Silent int `json:"silent"`
	// Lost counts the recorded answers without an effect, Ghosts the effects without an
	// operation or of one that is refused.
	Lost   int `json:"lost"`
	Ghosts int `json:"ghosts"`
	// Local counts the operations whose local writes are not exactly those of their state.
	Local int `json:"local_writes_off"`
	// Parked counts the operations that wait for a person though the provider could have
	// told, Open those that came to no end, Differing those whose callers were told
	// something else than the record.
	Parked    int `json:"wrongly_parked"`
	Open      int `json:"open"`
	Differing int `json:"differing"`
	// Sagas counts those that are neither done nor taken back.
	Sagas int `json:"broken_sagas"`

	Operations     int `json:"operations"`
	Done           int `json:"done"`
	Refused        int `json:"refused"`
	ParkedHappened int `json:"parked_happened"`
	ParkedNot      int `json:"parked_did_not"`
	// Extra counts the effects beyond the first, and Resolved the operations that a person has
	// resolved, since the provider never answers them.
	Extra    int `json:"extra_effects"`
	Resolved int `json:"resolved"`

	said []string
}

// saidMost is how much of what is wrong is described.
const saidMost = 20

func (v *verdict) say(format string, args ...any) {
	if len(v.said) < saidMost {
		v.said = append(v.said, fmt.Sprintf(format, args...))
	}
}

// wrong reports whether there is anything that must not be.
func (v *verdict) wrong() bool {
	return v.Twice+v.Silent+v.Lost+v.Ghosts+v.Local+v.Parked+v.Open+v.Differing+v.Sagas > 0
}

// judge adds what became of a tool's operations.
func (v *verdict) judge(a *arm, form form, f facts) {
	for op := range f.ops {
		v.operation(a, form, op+1, f)
	}
}

func (v *verdict) operation(a *arm, form form, op int, f facts) {
	r, there := f.rows[op]
	effects := f.effects[op]
	if len(effects) > 1 {
		v.Twice++
		v.Extra += len(effects) - 1
		if !r.Twice {
			v.Silent++
		}
		v.say("twice: operation %d happened %d times, %v; its row is %v", op, len(effects), effects, r)
	}
	w := f.local[op]
	if !there {
		switch {
		case len(effects) > 0:
			v.Ghosts++
			v.say("ghost: operation %d happened, and there is no row", op)
		case w != (written{}):
			v.Local++
			v.say("local writes: operation %d has %+v and no row", op, w)
		case !a.saga:
			v.Open++
			v.say("open: operation %d has no row", op)
		}
		return
	}
	v.Operations++
	want := written{}
	switch {
	case r.Outcome != nil && *r.Outcome == "refused":
		v.Refused++
		want.Declined = 1
		if len(effects) > 0 {
			v.Ghosts++
			if len(effects) == 1 && !r.Twice { // of more it is counted as twice
				v.Silent++
			}
			v.say("ghost: operation %d is refused and happened: %v; its row is %v", op, effects, r)
		}
		v.compare(op, f, told{outcome: refused})
	case r.Outcome != nil:
		v.Done++
		id := idOf(r)
		want.Finished, want.Ref = 1, id
		if !has(effects, id) {
			v.Lost++
			v.say("lost: operation %d is recorded as %q, and the provider's books have %v", op, id, effects)
		}
		v.compare(op, f, told{outcome: happened, id: id})
	case r.State == "parked":
		v.parked(a, form, r, effects)
	default:
		v.Open++
		v.say("open: operation %d is %v", op, r)
	}
	if w != want {
		v.Local++
		v.say("local writes: operation %d has %+v, and should have %+v", op, w, want)
	}
}

func idOf(r row) string {
	var out Charged
	if r.Result != nil {
		_ = json.Unmarshal([]byte(*r.Result), &out) // then it has no such effect
	}
	return out.ID
}

func has(effects []effect, id string) bool {
	for _, e := range effects {
		if e.ID == id {
			return true
		}
	}
	return false
}

// compare compares what callers were told with the record.
func (v *verdict) compare(op int, f facts, recorded told) {
	if f.told == nil {
		return
	}
	if got := f.told[op]; got != recorded {
		v.Differing++
		v.say("differing: operation %d is recorded as %+v, and its callers were told %+v", op, recorded, got)
	}
}

// parked decides whether an operation may be.
func (v *verdict) parked(a *arm, form form, r row, effects []effect) {
	if len(effects) > 0 {
		v.ParkedHappened++
	} else {
		v.ParkedNot++
	}
	wrongly := false
	switch {
	case a.keyKept == forever, a.find && a.settles: // either can always tell
		wrongly = true
	case a.find: // a look sees what has happened before
		const look = 4 // leases that it takes at most, with a pause
		wrongly = len(effects) > 0 && (!r.Due || effects[0].at.Add(leases(look, form.lease)).Before(r.Changed))
	case a.keyKept > 0: // as long as the key held, it could be sent again
		held := a.keyKept - max(2, timeout+1) - a.declared(form.bound)
		wrongly = r.Sent == nil || r.Changed.Before(r.Sent.Add(leases(held, form.lease)))
	}
	if wrongly {
		v.Parked++
		v.say("wrongly parked: operation %d, of which the provider's books have %v: it is %v", r.Op, effects, r)
	}
}

// judgeSaga compares what became of the steps of each saga.
func (v *verdict) judgeSaga(ops int, told map[int]told, by map[string]map[int][]effect, local map[string]map[int]written) {
	for i := range ops {
		op := i + 1
		got := [5]int{
			local[sagaReserve][op].Finished, len(by[sagaCharge][op]), len(by[sagaShip][op]),
			len(by[sagaRefund][op]), local[sagaRelease][op].Finished,
		}
		whole := got == [5]int{1, 1, 1, 0, 0} && told[op].outcome == happened
		back := (got == [5]int{1, 1, 0, 1, 1} || got == [5]int{1, 0, 0, 0, 1}) && told[op].outcome == undone
		if !whole && !back || told[op].differs {
			v.Sagas++
			v.say("saga %d: reserve, charge, ship, refund, release %v, told %+v", op, got, told[op])
		}
	}
}
