package outside

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	at := func(leases int) time.Time { return time.Unix(int64(leases), 0) }
	sent := at(0)
	done := row{Op: 1, State: "done", Outcome: text("done"), Result: text(`{"id":"a"}`)}
	refusal := row{Op: 1, State: "done", Outcome: text("refused"), Result: text(`{}`)}
	parkedAt := func(leases int) row { return row{Op: 1, State: "parked", Sent: &sent, Changed: at(leases)} }
	looked := func(r row) row {
		r.Due = true
		return r
	}
	once := []effect{{ID: "a", at: at(1)}}
	finish, decline := written{Finished: 1, Ref: "a"}, written{Declined: 1}
	for name, tt := range map[string]struct {
		arm     string // default neither
		row     *row
		effects []effect
		local   written
		told    told
		want    verdict
	}{
		"Done":                {row: &done, effects: once, local: finish, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1}},
		"Refused":             {row: &refusal, local: decline, told: told{outcome: refused}, want: verdict{Refused: 1}},
		"TwiceSilently":       {row: &done, effects: append(once, effect{ID: "b"}), local: finish, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Twice: 1, Silent: 1, Extra: 1}},
		"TwiceReported":       {row: &row{Op: 1, Outcome: done.Outcome, Result: done.Result, Twice: true}, effects: append(once, effect{ID: "b"}, effect{ID: "c"}), local: finish, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Twice: 1, Extra: 2}},
		"Lost":                {row: &done, effects: []effect{{ID: "b"}}, local: finish, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Lost: 1}},
		"Ghost":               {row: &refusal, effects: once, local: decline, told: told{outcome: refused}, want: verdict{Refused: 1, Ghosts: 1, Silent: 1}},
		"GhostReported":       {row: &row{Op: 1, Outcome: refusal.Outcome, Twice: true}, effects: once, local: decline, told: told{outcome: refused}, want: verdict{Refused: 1, Ghosts: 1}},
		"GhostWithoutRow":     {effects: once, want: verdict{Ghosts: 1}},
		"NeverClaimed":        {want: verdict{Open: 1}},
		"LocalWithoutRow":     {local: finish, want: verdict{Local: 1}},
		"LocalTwice":          {row: &done, effects: once, local: written{2, 0, "a"}, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Local: 1}},
		"LocalMissing":        {row: &done, effects: once, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Local: 1}},
		"LocalOfAnother":      {row: &done, effects: once, local: written{1, 0, "b"}, told: told{outcome: happened, id: "a"}, want: verdict{Done: 1, Local: 1}},
		"ToldOtherwise":       {row: &done, effects: once, local: finish, told: told{outcome: refused}, want: verdict{Done: 1, Differing: 1}},
		"ToldNothing":         {row: &done, effects: once, local: finish, want: verdict{Done: 1, Differing: 1}},
		"Running":             {row: &row{Op: 1, State: "running"}, effects: once, want: verdict{Open: 1}},
		"Parked":              {row: ptr(parkedAt(2)), effects: once, want: verdict{ParkedHappened: 1}},
		"ParkedDidNot":        {row: ptr(parkedAt(2)), want: verdict{ParkedNot: 1}},
		"ParkedWithKey":       {arm: "keys", row: ptr(parkedAt(2)), want: verdict{ParkedNot: 1, Parked: 1}},
		"ParkedWithSettles":   {arm: "look-up-settles", row: ptr(parkedAt(2)), want: verdict{ParkedNot: 1, Parked: 1}},
		"ParkedWhileKeyHeld":  {arm: "keys-6", row: ptr(parkedAt(1)), want: verdict{ParkedNot: 1, Parked: 1}},
		"ParkedKeyForgotten":  {arm: "keys-6", row: ptr(parkedAt(2)), want: verdict{ParkedNot: 1}},
		"ParkedNotFound":      {arm: "look-up", row: ptr(looked(parkedAt(30))), want: verdict{ParkedNot: 1}},
		"ParkedToBeFound":     {arm: "look-up", row: ptr(looked(parkedAt(2))), effects: once, want: verdict{ParkedHappened: 1}},
		"ParkedThoughLooked":  {arm: "look-up", row: ptr(looked(parkedAt(30))), effects: once, want: verdict{ParkedHappened: 1, Parked: 1}},
		"ParkedAndForgotten":  {arm: "look-up", row: ptr(parkedAt(2)), effects: once, want: verdict{ParkedHappened: 1, Parked: 1}},
		"ParkedAndFinished":   {row: ptr(parkedAt(2)), local: finish, want: verdict{ParkedNot: 1, Local: 1}},
		"ParkedNotEvenOnKeys": {arm: "keys-6-and-look-up", row: ptr(parkedAt(30)), want: verdict{ParkedNot: 1, Parked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := armOf("neither")
			if tt.arm != "" {
				a = armOf(tt.arm)
			}
			f := facts{ops: 1, rows: map[int]row{}, effects: map[int][]effect{1: tt.effects}, local: map[int]written{1: tt.local}, told: map[int]told{1: tt.told}}
			if tt.row != nil {
				f.rows[1], tt.want.Operations = *tt.row, 1
			}
			var v verdict
			v.judge(a, longForm, f)
			require.Equal(t, v.wrong(), len(v.said) > 0, v.said)
			v.said = nil
			require.Equal(t, tt.want, v)
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestJudgeSaga(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reserve, charge, ship, refund, release int
		told                                   told
		wrong                                  bool
	}{
		"Whole":         {1, 1, 1, 0, 0, told{outcome: happened}, false},
		"TakenBack":     {1, 1, 0, 1, 1, told{outcome: undone}, false},
		"NotCharged":    {1, 0, 0, 0, 1, told{outcome: undone}, false},
		"HalfTakenBack": {1, 1, 0, 0, 1, told{outcome: undone}, true},
		"ShippedAnyway": {1, 1, 1, 1, 1, told{outcome: undone}, true},
		"Stopped":       {1, 1, 0, 0, 0, told{}, true},
		"ChargedTwice":  {1, 2, 1, 0, 0, told{outcome: happened}, true},
		"ToldOtherwise": {1, 1, 1, 0, 0, told{outcome: undone}, true},
		"ToldBoth":      {1, 1, 1, 0, 0, told{outcome: happened, differs: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := map[string]map[int][]effect{
				sagaCharge: {1: make([]effect, tt.charge)}, sagaShip: {1: make([]effect, tt.ship)}, sagaRefund: {1: make([]effect, tt.refund)},
			}
			local := map[string]map[int]written{sagaReserve: {1: {Finished: tt.reserve}}, sagaRelease: {1: {Finished: tt.release}}}
			var v verdict
			v.judgeSaga(1, map[int]told{1: tt.told}, by, local)
			require.Equal(t, tt.wrong, v.wrong(), v.said)
		})
	}
}
