package outside

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	at := func(leases int) time.Time { return time.Unix(int64(leases), 0) }
	finish, decline := written{Finished: 1, Ref: "a"}, written{Declined: 1}
	done := row{State: "done", Outcome: "done", ID: "a", written: finish}
	refusal := row{State: "done", Outcome: "refused", written: decline}
	with := func(r row, change func(*row)) row {
		change(&r)
		return r
	}
	reported := func(r *row) { r.Twice = true }
	wrote := func(w written) row { return with(done, func(r *row) { r.written = w }) }
	parkedAt := func(leases int) row {
		return row{State: "parked", Changed: at(leases), After: time.Duration(leases) * time.Second}
	}
	looked := func(leases int) row { return with(parkedAt(leases), func(r *row) { r.Due = true }) }
	a, b, c := effect{ID: "a", at: at(1)}, effect{ID: "b"}, effect{ID: "c"}
	saidDone, saidRefused := told{outcome: happened, id: "a"}, told{outcome: refused}
	for name, tt := range map[string]struct {
		arm     string // default neither
		row     row
		effects []effect
		told    told
		became  string
		wrong   []wrong
	}{
		"Done":                {row: done, effects: []effect{a}, told: saidDone, became: "done"},
		"Refused":             {row: refusal, told: saidRefused, became: "refused"},
		"TwiceSilently":       {row: done, effects: []effect{a, b}, told: saidDone, became: "done", wrong: []wrong{twice, silent}},
		"TwiceReported":       {row: with(done, reported), effects: []effect{a, b, c}, told: saidDone, became: "done", wrong: []wrong{twice}},
		"Lost":                {row: done, effects: []effect{b}, told: saidDone, became: "done", wrong: []wrong{lost}},
		"Ghost":               {row: refusal, effects: []effect{a}, told: saidRefused, became: "refused", wrong: []wrong{ghost, silent}},
		"GhostReported":       {row: with(refusal, reported), effects: []effect{a}, told: saidRefused, became: "refused", wrong: []wrong{ghost}},
		"GhostWithoutRow":     {effects: []effect{a}, wrong: []wrong{ghost}},
		"NeverClaimed":        {wrong: []wrong{open}},
		"LocalWithoutRow":     {row: row{written: finish}, wrong: []wrong{open, local}},
		"LocalTwice":          {row: wrote(written{2, 0, "a"}), effects: []effect{a}, told: saidDone, became: "done", wrong: []wrong{local}},
		"LocalMissing":        {row: wrote(written{}), effects: []effect{a}, told: saidDone, became: "done", wrong: []wrong{local}},
		"LocalOfAnother":      {row: wrote(written{1, 0, "b"}), effects: []effect{a}, told: saidDone, became: "done", wrong: []wrong{local}},
		"ToldOtherwise":       {row: done, effects: []effect{a}, told: saidRefused, became: "done", wrong: []wrong{differing}},
		"ToldBoth":            {row: done, effects: []effect{a}, told: told{happened, "a", true}, became: "done", wrong: []wrong{differing}},
		"ToldNothing":         {row: done, effects: []effect{a}, became: "done", wrong: []wrong{differing}},
		"Running":             {row: row{State: "running"}, effects: []effect{a}, wrong: []wrong{open}},
		"Parked":              {row: parkedAt(2), effects: []effect{a}, became: "parked, happened"},
		"ParkedDidNot":        {row: parkedAt(2), became: "parked, did not"},
		"ParkedWithKey":       {arm: "keys", row: parkedAt(2), became: "parked, did not", wrong: []wrong{wronglyParked}},
		"ParkedWithSettles":   {arm: "look-up-settles", row: parkedAt(2), became: "parked, did not", wrong: []wrong{wronglyParked}},
		"ParkedWhileKeyHeld":  {arm: "keys-6", row: parkedAt(2), became: "parked, did not", wrong: []wrong{wronglyParked}},
		"ParkedNeverSent":     {arm: "keys-6", row: row{State: "parked", After: -1}, became: "parked, did not", wrong: []wrong{wronglyParked}},
		"ParkedKeyForgotten":  {arm: "keys-6", row: parkedAt(3), became: "parked, did not"},
		"ParkedNotFound":      {arm: "look-up", row: looked(30), became: "parked, did not"},
		"ParkedToBeFound":     {arm: "look-up", row: looked(2), effects: []effect{a}, became: "parked, happened"},
		"ParkedThoughLooked":  {arm: "look-up", row: looked(30), effects: []effect{a}, became: "parked, happened", wrong: []wrong{wronglyParked}},
		"ParkedAndForgotten":  {arm: "look-up", row: parkedAt(2), effects: []effect{a}, became: "parked, happened", wrong: []wrong{wronglyParked}},
		"ParkedAndFinished":   {row: with(parkedAt(2), func(r *row) { r.written = finish }), became: "parked, did not", wrong: []wrong{local}},
		"ParkedNotEvenOnKeys": {arm: "keys-6-and-look-up", row: parkedAt(30), became: "parked, did not", wrong: []wrong{wronglyParked}},
		"LeaseTwice":          {arm: "control-lease", effects: []effect{a, b}, wrong: []wrong{twice, silent}},
		"SagaNotSoFar":        {arm: "saga"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.arm == "" {
				tt.arm = "neither"
			}
			of := operation{tt.arm, 1}
			v := newVerdict()
			v.operation(armOf(tt.arm), of, books{map[operation]row{of: tt.row}, map[operation][]effect{of: tt.effects}, map[int]told{1: tt.told}})
			want := map[wrong]int{}
			for _, w := range tt.wrong {
				want[w] = 1
			}
			require.Equal(t, want, v.Wrong, v.Said)
			require.Len(t, v.Said, len(tt.wrong))
			if tt.became != "" {
				require.Equal(t, 1, v.Became[tt.became])
			}
			require.Equal(t, max(0, len(tt.effects)-1), v.Became["extra effects"])
		})
	}
}

func armOf(name string) arm {
	return arms[slices.IndexFunc(arms, func(a arm) bool { return a.Name == name })]
}

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
			rows := map[operation]row{
				{sagaReserve, 1}: {written: written{Finished: tt.reserve}}, {sagaRelease, 1}: {written: written{Finished: tt.release}},
			}
			effects := map[operation][]effect{
				{sagaCharge, 1}: make([]effect, tt.charge), {sagaShip, 1}: make([]effect, tt.ship), {sagaRefund, 1}: make([]effect, tt.refund),
			}
			v := newVerdict()
			v.saga(1, books{rows, effects, map[int]told{1: tt.told}})
			require.Equal(t, tt.wrong, v.Wrong[brokenSaga] > 0, v.Said)
		})
	}
}
