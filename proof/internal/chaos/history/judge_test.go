package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// right is a call with the usual arguments.
var right = &draw{by: &lab.Client{}}

func ms(n int) time.Time { return time.UnixMilli(int64(n)) }

func at(n int) *time.Time { t := ms(n); return &t }

// born is the run of a call. Its record lives from one time to another.
func born(number, call int64, from, to int) run {
	return run{Key: "k", Run: number, Call: call, At: at(from), Created: at(from), Expires: at(to), Forgotten: at(to)}
}

// gone is a deleted record.
func gone(r run, when int, byReset bool) run {
	r.Gone, r.Reset = at(when), byReset
	return r
}

// answer is a call's answer from the record that was created at a time.
func answer(began, ended int, number int64, created int, replayed bool) made {
	return made{draw: right, key: "k", began: ms(began), ended: ms(ended), told: &lab.Told{Run: number, Created: ms(created), Replayed: replayed}}
}

// silent is a call without an answer.
func silent(began int) made { return made{draw: right, key: "k", began: ms(began), ended: ms(began)} }

// other is a call with other arguments.
func other(m made) made {
	m.draw = &draw{variant: 1}
	return m
}

func reused(began, ended int) made {
	return made{draw: &draw{variant: 1}, key: "k", began: ms(began), ended: ms(ended), err: &dedup.Error{Kind: dedup.ErrKeyReused, KeyHash: dedup.KeyHash("k")}}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	lasting := born(1, 1, 10, 1000)
	waited := born(3, 2, 9, 30)
	waited.At = at(22)
	for name, tt := range map[string]struct {
		runs   []run
		calls  []made // their numbers are from 1
		resets []int
		want   lab.Tally
	}{
		"Once": {
			runs: []run{born(1, 1, 10, 20)}, calls: []made{answer(5, 12, 1, 10, false), answer(19, 30, 1, 10, true)},
			want: lab.Tally{Identities: 1},
		},
		"AgainWhenForgotten": {
			runs: []run{gone(born(1, 1, 10, 20), 20, false), born(2, 2, 20, 30)}, calls: []made{silent(5), silent(15)},
			want: lab.Tally{Identities: 2},
		},
		"ForgottenTooEarly": {
			runs: []run{gone(born(1, 1, 10, 20), 18, false)}, calls: []made{silent(5)},
			want: lab.Tally{Identities: 1, Doubled: 1},
		},
		"WrittenByAStatementThatWaited": {
			runs: []run{gone(born(1, 1, 10, 20), 21, false), waited}, calls: []made{silent(5), answer(8, 23, 3, 9, false)},
			want: lab.Tally{Identities: 2},
		},
		"AgainAfterReset": {
			runs: []run{gone(born(1, 1, 10, 20), 12, true), born(3, 1, 13, 30)}, calls: []made{silent(5)},
			want: lab.Tally{Identities: 2},
		},
		"TwiceByOneCall": {
			runs: []run{gone(born(1, 1, 10, 20), 20, false), born(2, 1, 21, 30)}, calls: []made{silent(5)},
			want: lab.Tally{Identities: 2, Doubled: 1},
		},
		"WithoutRecord": {
			runs: []run{born(1, 1, 10, 20), {Key: "k", Run: 2, Call: 1}}, calls: []made{silent(5)},
			want: lab.Tally{Identities: 1, Doubled: 1},
		},
		"TwiceUnderOneRecord": {
			runs: []run{born(1, 1, 10, 20), born(9, 2, 10, 20)}, calls: []made{silent(5), silent(5)},
			want: lab.Tally{Identities: 1, Doubled: 1},
		},
		"OfAnEarlierRound":    {runs: []run{gone(born(1, 9, 10, 20), 30, false)}, want: lab.Tally{Identities: 1}},
		"RecordWithoutEffect": {runs: []run{born(0, 0, 10, 20)}, want: lab.Tally{Lost: 1}},
		"AnswerWithoutEffect": {
			runs: []run{lasting}, calls: []made{silent(5), answer(5, 20, 7, 10, true)},
			want: lab.Tally{Identities: 1, Lost: 1},
		},
		"AnotherCallsRun": {
			runs: []run{lasting}, calls: []made{silent(5), answer(5, 20, 1, 10, false)},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"AnotherKeysRun": {
			runs: []run{lasting}, calls: []made{silent(5), {draw: right, key: "other", began: ms(5), ended: ms(20), told: &lab.Told{Run: 1, Created: ms(10), Replayed: true}}},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"AnotherTime": {
			runs: []run{lasting}, calls: []made{silent(5), answer(5, 20, 1, 11, true)},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"ExpiredAtItsBeginning": {
			runs: []run{born(1, 1, 10, 20)}, calls: []made{silent(5), answer(20, 25, 1, 10, true)},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"DuringReset": {
			runs: []run{gone(born(1, 1, 10, 90), 12, true)}, calls: []made{silent(5), answer(13, 20, 1, 10, true)}, resets: []int{11, 13, 15},
			want: lab.Tally{Identities: 1},
		},
		"ResetBeforeItsBeginning": {
			runs: []run{gone(born(1, 1, 10, 90), 12, true)}, calls: []made{silent(5), answer(14, 20, 1, 10, true)}, resets: []int{11, 13, 15},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"BeforeItRan": {
			runs: []run{lasting}, calls: []made{silent(5), answer(5, 9, 1, 10, true)},
			want: lab.Tally{Identities: 1, Differing: 1},
		},
		"AnswerOfTheOneBefore": {
			runs:  []run{gone(born(1, 1, 10, 90), 12, true), born(2, 2, 20, 90)},
			calls: []made{silent(5), answer(12, 30, 2, 20, false), answer(31, 40, 1, 10, true)}, resets: []int{50},
			want: lab.Tally{Identities: 2, Differing: 1},
		},
		"Reused":       {runs: []run{lasting}, calls: []made{silent(5), reused(11, 12)}, want: lab.Tally{Identities: 1}},
		"ReusedAtOnce": {runs: []run{lasting}, calls: []made{silent(5), reused(5, 12)}, want: lab.Tally{Identities: 1}},
		"ReusedFirst":  {runs: []run{lasting}, calls: []made{silent(5), reused(5, 9)}, want: lab.Tally{Identities: 1, Differing: 1}},
		"ReusedByTheSame": {
			runs: []run{lasting}, calls: []made{other(silent(5)), reused(11, 12)}, want: lab.Tally{Identities: 1, Differing: 1},
		},
		"OthersAnswer": {
			runs: []run{lasting}, calls: []made{silent(5), other(answer(11, 12, 1, 10, true))}, want: lab.Tally{Identities: 1, Differing: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks()
			b.runs = tt.runs
			for i, m := range tt.calls {
				b.calls[int64(i+1)] = m
			}
			for _, done := range tt.resets {
				b.resets["k"] = append(b.resets["k"], ms(done))
			}
			v := verdict{outcomes: map[string]int{}}
			require.NoError(t, b.judge(&v))
			require.Equal(t, tt.want, v.Tally, v.said)
			require.Len(t, v.said, v.Doubled+v.Lost+v.Differing)
		})
	}
}
