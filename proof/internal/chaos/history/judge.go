package history

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// verdict is the judgement of all rounds.
type verdict struct {
	lab.Tally
	// impossible counts the answers that had expired when their call began, and the keys whose
	// history fits no register. Differing counts them too.
	impossible      int
	replays, resets int
	outcomes        map[string]int // of calls, by way
	said            []string       // the first problems
	unexpected      error          // the first error that no call may return
}

// The signs of bugs.
func doubled(v verdict) int    { return v.Doubled }
func lost(v verdict) int       { return v.Lost }
func impossible(v verdict) int { return v.impossible }

func (v *verdict) say(count *int, format string, args ...any) {
	if *count++; len(v.said) < saidMost {
		v.said = append(v.said, fmt.Sprintf(format, args...))
	}
}

// judge compares the committed facts with the answers.
//
// Doubled: an effect was committed without its own record; or a record was deleted too early and
// not by Reset; or one call committed twice, unless Reset deleted its first result. Lost: an answer
// names a run that was not committed, or a record has no effect. Differing: an answer is not its
// run's answer; or it had expired when the call began; or no register fits the history of the key.
func (b *books) judge(v *verdict) error {
	b.histories = map[string]*history{}
	v.Unanswered += b.unanswered
	committed := b.effects(v)
	for number, m := range b.calls {
		b.call(v, number, m, committed)
	}
	for _, done := range b.resets {
		v.resets += len(done)
	}
	for key, h := range b.histories {
		ok, until, err := h.possible()
		if err != nil {
			return err
		}
		if !ok {
			v.impossible++
			v.say(&v.Differing, "impossible: no register has the history of %s beyond %v", key, until)
		}
	}
	return nil
}

// effects compares effects with records and returns the effects by number.
func (b *books) effects(v *verdict) map[int64]run {
	type record struct {
		key     string
		created time.Time
	}
	committed, owned, byCall := map[int64]run{}, map[record]bool{}, map[int64]run{}
	for _, r := range b.runs {
		if r.Run == 0 {
			v.say(&v.Lost, "lost: a record of %s has no effect", r.Key)
			continue
		}
		committed[r.Run] = r
		if r.Created == nil || owned[record{r.Key, *r.Created}] {
			v.say(&v.Doubled, "doubled: run %d of %s was committed without a record of its own", r.Run, r.Key)
			continue
		}
		v.Identities++
		owned[record{r.Key, *r.Created}] = true
		if earlier, again := byCall[r.Call]; again && !earlier.Reset {
			v.say(&v.Doubled, "doubled: run %d of %s is not the first that one call has committed, by %v", r.Run, r.Key, b.calls[r.Call])
		}
		byCall[r.Call] = r
		if r.Gone != nil && !r.Reset && r.Gone.Before(*r.Forgotten) {
			v.say(&v.Doubled, "doubled: the record of run %d of %s was deleted at %s, before it may be forgotten at %s", r.Run, r.Key, clock(*r.Gone), clock(*r.Forgotten))
		}
		b.live(r)
	}
	return committed
}

// live adds the life of a record to the history of its key. A call that answered with the run saw
// the record, and so did the transaction that deleted it.
func (b *books) live(r run) {
	by, ours := b.calls[r.Call]
	if !ours {
		return // a connection that broke in an earlier round left it behind
	}
	until, freed := int64(forever), int64(forever)
	if by.told != nil && by.told.Run == r.Run && !by.told.Replayed {
		until = by.ended.UnixNano()
	}
	if r.Gone != nil {
		until = min(until, r.Gone.UnixNano())
		for _, done := range b.resets[r.Key] { // in order
			if r.Reset && !done.Before(*r.Gone) {
				freed = min(freed, done.UnixNano())
			}
		}
		b.of(r.Key).add(op{kind: isFreed, run: r.Run}, r.Gone.UnixNano(), freed)
	}
	b.of(r.Key).add(op{isSet, r.Run, by.variant}, r.At.UnixNano(), until)
}

// call judges the answer of a call.
func (b *books) call(v *verdict, number int64, m made, committed map[int64]run) {
	outcome := outcomeOf(m.err)
	if m.told != nil {
		outcome = answered
		b.answer(v, number, m, committed)
	}
	v.outcomes[m.way.Name+": "+string(outcome)]++
	var answer *dedup.Error
	if errors.As(m.err, &answer) && answer.Kind == dedup.ErrKeyReused && answer.KeyHash == dedup.KeyHash(m.key) {
		b.of(m.key).add(op{kind: refuses, variant: m.variant}, m.began.UnixNano(), m.ended.UnixNano())
	}
	if outcome == unexpected {
		v.unexpected = cmp.Or(v.unexpected, fmt.Errorf("%v: %w", m, m.err))
	}
}

func (b *books) answer(v *verdict, number int64, m made, committed map[int64]run) {
	r, there := committed[m.told.Run]
	switch {
	case !there:
		v.say(&v.Lost, "lost: %v answered run %d, which was not committed", m, m.told.Run)
	case r.Key != m.key:
		v.say(&v.Differing, "differing: %v answered run %d, which is %s's", m, r.Run, r.Key)
	case !m.told.Replayed && r.Call != number:
		v.say(&v.Differing, "differing: %v answered run %d as its own, which is another call's", m, r.Run)
	case r.Created == nil: // counted as doubled
	case !r.Created.Equal(m.told.Created):
		v.say(&v.Differing, "differing: %v answered run %d as of %s, its record is of %s", m, r.Run, clock(m.told.Created), clock(*r.Created))
	case !r.Expires.After(m.began):
		v.impossible++
		v.say(&v.Differing, "stale: %v began at %s and answered run %d, which had expired at %s", m, clock(m.began), r.Run, clock(*r.Expires))
	case m.told.Replayed:
		v.replays++
		b.of(m.key).add(op{answers, r.Run, m.variant}, m.began.UnixNano(), m.ended.UnixNano())
	}
}

func (b *books) of(key string) *history {
	if b.histories[key] == nil {
		b.histories[key] = &history{}
	}
	return b.histories[key]
}

func clock(t time.Time) string { return t.UTC().Format("01-02 15:04:05.000000") }
