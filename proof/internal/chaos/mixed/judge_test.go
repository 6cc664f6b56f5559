package mixed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/lab"
)

func ms(n int) time.Time { return time.UnixMilli(int64(n)) }

// born is a record of transaction xact that lives from one time to another.
func born(xact int64, from, to int) event {
	return event{Op: "INSERT", Key: "k", Xact: xact, At: ms(from), Created: ms(from), Expires: ms(to), Forgotten: ms(to)}
}

func gone(xact int64, when int, app string) event {
	return event{Op: "DELETE", Key: "k", Xact: xact, At: ms(when), App: app}
}

// ran is the effect of call in transaction xact; the run has the number of xact.
func ran(xact, call int64) entry { return entry{Run: xact, Key: "k", Call: call, Xact: xact} }

func TestJudge(t *testing.T) {
	t.Parallel()
	replay := func(run int64, created, began int) told {
		return told{key: "k", call: 99, run: run, created: ms(created), replayed: true, began: ms(began)}
	}
	for name, tt := range map[string]struct {
		books             *books
		want              lab.Tally
		stale, afterReset int
	}{
		"Once": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)},
			answers: []told{{key: "k", call: 1, run: 1, created: ms(10), began: ms(5)}, replay(1, 10, 19)},
		}, want: lab.Tally{Identities: 1}},
		"AgainWhenForgotten": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 20, "any"), born(2, 20, 30)}, ledger: []entry{ran(1, 1), ran(2, 2)},
		}, want: lab.Tally{Identities: 2}},
		"AgainTooEarly": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 18, "any"), born(2, 19, 30)}, ledger: []entry{ran(1, 1), ran(2, 2)},
		}, want: lab.Tally{Identities: 2, Duplicates: 1}},
		"ForgottenTooEarly": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 18, "any"), born(3, 25, 30)}, ledger: []entry{ran(1, 1), ran(3, 2)},
		}, want: lab.Tally{Identities: 2, Duplicates: 1}},
		"WrittenByAStatementThatWaited": {books: &books{
			events: []event{
				born(1, 10, 20), gone(2, 21, "any"),
				{Op: "INSERT", Key: "k", Xact: 3, At: ms(22), Created: ms(9), Expires: ms(30), Forgotten: ms(30)},
			}, ledger: []entry{ran(1, 1), ran(3, 2)},
		}, want: lab.Tally{Identities: 2}},
		"AgainAfterReset": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 12, lab.OwnName), born(3, 13, 30)}, ledger: []entry{ran(1, 1), ran(3, 1)},
		}, want: lab.Tally{Identities: 2}, afterReset: 1},
		"TwiceByOneCall": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 20, "any"), born(2, 21, 30)}, ledger: []entry{ran(1, 1), ran(2, 1)},
		}, want: lab.Tally{Identities: 2, Duplicates: 1}},
		"WithoutRecord": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1), ran(2, 1)},
		}, want: lab.Tally{Identities: 1, Duplicates: 1}},
		"TwiceUnderOneRecord": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1), {Run: 9, Key: "k", Call: 2, Xact: 1}},
		}, want: lab.Tally{Identities: 1, Duplicates: 1}},
		"RecordWithoutEffect": {books: &books{
			events: []event{born(1, 10, 20)},
		}, want: lab.Tally{Identities: 1, Lost: 1}},
		"AnswerWithoutEffect": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)}, answers: []told{replay(7, 10, 5)},
		}, want: lab.Tally{Identities: 1, Lost: 1}},
		"AnotherCallsRun": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)},
			answers: []told{{key: "k", call: 2, run: 1, created: ms(10), began: ms(5)}},
		}, want: lab.Tally{Identities: 1, Differing: 1}},
		"AnotherKeysRun": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)},
			answers: []told{{key: "other", call: 1, run: 1, created: ms(10), began: ms(5)}},
		}, want: lab.Tally{Identities: 1, Differing: 1}},
		"AnotherTime": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)}, answers: []told{replay(1, 11, 5)},
		}, want: lab.Tally{Identities: 1, Differing: 1}},
		"ExpiredAtItsBeginning": {books: &books{
			events: []event{born(1, 10, 20)}, ledger: []entry{ran(1, 1)}, answers: []told{replay(1, 10, 20)},
		}, want: lab.Tally{Identities: 1, Differing: 1}, stale: 1},
		"ResetBeforeItsBeginning": {books: &books{
			events: []event{born(1, 10, 20), gone(2, 12, lab.OwnName)}, ledger: []entry{ran(1, 1)},
			resets: map[string][]time.Time{"k": {ms(11), ms(13), ms(15)}}, answers: []told{replay(1, 10, 13), replay(1, 10, 14)},
		}, want: lab.Tally{Identities: 1, Differing: 1}, stale: 1},
		"ClaimThatIsCompletedAndSwept": {books: &books{
			events: []event{
				{Op: "INSERT", Key: "k", Xact: 1, At: ms(5), Created: ms(5), Expires: ms(9), Forgotten: ms(9)},
				{Op: "UPDATE", Key: "k", Xact: 1, Created: ms(10), Expires: ms(15), Forgotten: ms(20)},
				{Op: "UPDATE", Key: "k", Xact: 2, Created: ms(10), Expires: ms(15), Forgotten: ms(20)},
				gone(3, 20, "any"), born(3, 20, 30),
			}, ledger: []entry{ran(1, 1), ran(3, 3)}, answers: []told{replay(1, 10, 14)},
		}, want: lab.Tally{Identities: 2}},
		"SweptFromAnEarlierRound": {books: &books{events: []event{gone(1, 5, "any")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := tt.books.judge()
			require.Equal(t, tt.want, v.Tally, v.Said)
			require.Equal(t, tt.stale, v.Stale)
			require.Equal(t, tt.afterReset, v.AfterReset)
			require.Len(t, v.Said, v.Duplicates+v.Lost+v.Differing)
		})
	}
}
