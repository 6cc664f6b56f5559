package mixed

import (
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

// life is a record from its transaction to its end. Until it is forgotten, or Reset
// deletes it, no other transaction may run the effect; until it has expired, or such
// a Reset has returned, it may be answered with.
type life struct {
	key                         string
	xact                        int64
	created, expires, forgotten time.Time
	// began is when the record was in the table, and ended when it no longer was. created
	// is the start of the statement that wrote it, which may have waited for others.
	began, ended time.Time
	deleted      bool
	byReset      bool
	resetDone    time.Time // when that Reset is known to have returned; zero if it is not
}

// verdict is what the books say.
type verdict struct {
	lab.Tally
	// Overlaps counts the records that began before the one before them was forgotten,
	// Unrecorded the effects without a record. They are in Duplicates too.
	Overlaps, Unrecorded int
	// Stale counts the answers from a record that was no longer alive when the call
	// began. They are in Differing too.
	Stale int
	// AfterReset counts the effects that one call committed a second time because Reset
	// had deleted its record. They are not wrong.
	AfterReset int
	// Said describes what is wrong.
	Said []string
}

func (v *verdict) say(format string, args ...any) {
	v.Said = append(v.Said, fmt.Sprintf(format, args...))
}

// at names an effect or record: a transaction writes at most one of a key.
type at struct {
	key  string
	xact int64
}

// judge decides exactly, from what was committed and what callers were told.
//
// Doubled: two lives of a key overlap; or a transaction has more effects of a key
// than records; or one call has committed twice, unless Reset deleted what it
// committed first, which frees the identity for whoever comes next. Lost: an answer names a run that
// is not in the ledger, or a record has no effect. Differing: an answer names the run
// of another key, or of another call where it claims to be the first, or another time
// than its record; or it is stale.
func (b *books) judge() verdict {
	var v verdict
	lives := b.lives()
	records := map[at]*life{}
	for _, ofKey := range lives {
		for i, l := range ofKey {
			v.Identities++
			records[at{l.key, l.xact}] = l
			if i == 0 {
				continue
			}
			if before := ofKey[i-1]; !before.byReset && (l.began.Before(before.forgotten) || before.ended.Before(before.forgotten)) {
				v.Duplicates++
				v.Overlaps++
				v.say("doubled: %s has a record since %s, while that of %s, which ended at %s, was not to be forgotten before %s",
					l.key, clock(l.began), clock(before.created), clock(before.ended), clock(before.forgotten))
			}
		}
	}
	runs := b.count(&v, records)
	for _, t := range b.answers {
		v.answer(t, runs, records)
	}
	return v
}

// lives puts the events together to the lives of each key, in their order.
func (b *books) lives() map[string][]*life {
	lives := map[string][]*life{}
	for _, e := range b.events {
		ofKey := lives[e.Key]
		var last *life
		if len(ofKey) > 0 && !ofKey[len(ofKey)-1].deleted {
			last = ofKey[len(ofKey)-1]
		}
		switch {
		case e.Op == "DELETE" && last == nil: // a record of an earlier round
		case e.Op == "DELETE" && last.xact == e.Xact: // a claim that is taken back
			lives[e.Key] = ofKey[:len(ofKey)-1]
		case e.Op == "DELETE":
			last.deleted, last.ended, last.byReset = true, e.At, e.App == lab.OwnName
			if last.byReset {
				last.resetDone = b.resetAfter(e)
			}
		case e.Op == "UPDATE" && last != nil && last.xact == e.Xact: // a claim that is completed
			last.created, last.expires, last.forgotten = e.Created, e.Expires, e.Forgotten
		case e.Op == "UPDATE" && (last == nil || last.created.Equal(e.Created)): // a sweep drops the result
		default:
			lives[e.Key] = append(ofKey, &life{key: e.Key, xact: e.Xact, began: e.At, created: e.Created, expires: e.Expires, forgotten: e.Forgotten})
		}
	}
	return lives
}

// resetAfter returns when the Reset had returned that deleted a record. The Resets
// of a key come one after the other.
func (b *books) resetAfter(deleted event) time.Time {
	for _, done := range b.resets[deleted.Key] {
		if !done.Before(deleted.At) {
			return done
		}
	}
	return time.Time{}
}

// count compares effects with records, and returns the effects by their number.
func (b *books) count(v *verdict, records map[at]*life) map[int64]entry {
	runs, effects, calls := map[int64]entry{}, map[at]int{}, map[int64]at{}
	for _, e := range b.ledger {
		runs[e.Run] = e
		place := at{e.Key, e.Xact}
		effects[place]++
		earlier, again := calls[e.Call]
		calls[e.Call] = place
		switch {
		case records[place] == nil:
			v.Duplicates++
			v.Unrecorded++
			v.say("doubled: run %d of %s was committed without a record", e.Run, e.Key)
		case effects[place] > 1:
			v.Duplicates++
			v.say("doubled: run %d of %s is the %d. under one record", e.Run, e.Key, effects[place])
		case again && records[earlier] != nil && records[earlier].byReset:
			v.AfterReset++
		case again:
			v.Duplicates++
			v.say("doubled: run %d of %s is not the first that one call has committed, by %s", e.Run, e.Key, b.made[e.Call])
		}
	}
	for place := range records {
		if effects[place] == 0 {
			v.Lost++
			v.say("lost: a record of %s has no effect", place.key)
		}
	}
	return runs
}

func (v *verdict) answer(t told, runs map[int64]entry, records map[at]*life) {
	e, there := runs[t.run]
	l := records[at{e.Key, e.Xact}]
	switch {
	case !there:
		v.Lost++
		v.say("lost: %s answered run %d of %s, which was not committed", t.way, t.run, t.key)
	case e.Key != t.key:
		v.Differing++
		v.say("differing: %s of %s answered run %d, which is %s's", t.way, t.key, t.run, e.Key)
	case !t.replayed && e.Call != t.call:
		v.Differing++
		v.say("differing: %s of %s answered run %d as its own, which is another call's", t.way, t.key, t.run)
	case l == nil: // counted as doubled
	case !l.created.Equal(t.created):
		v.Differing++
		v.say("differing: %s of %s answered run %d as of %s, its record is of %s", t.way, t.key, t.run, clock(t.created), clock(l.created))
	case !l.expires.After(t.began):
		v.stale(t, "expired at %s", l.expires)
	case !l.resetDone.IsZero() && l.resetDone.Before(t.began):
		v.stale(t, "was reset before %s", l.resetDone)
	}
}

func (v *verdict) stale(t told, why string, when time.Time) {
	v.Stale++
	v.Differing++
	v.say("stale: %s of %s began at %s and answered run %d, whose record "+why, t.way, t.key, clock(t.began), t.run, clock(when))
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// add adds the counts of o and keeps the first of what was said.
func (v *verdict) add(o verdict) {
	v.Tally.Add(o.Tally)
	v.Overlaps += o.Overlaps
	v.Unrecorded += o.Unrecorded
	v.Stale += o.Stale
	v.AfterReset += o.AfterReset
	v.Said = slices.Concat(v.Said, o.Said)
	v.Said = v.Said[:min(len(v.Said), saidMost)]
}
