package lab

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCloseOfWhatDidNotEnd(t *testing.T) {
	t.Parallel()
	s := Score{Calls: 3, Faults: 1, Tally: Tally{Identities: 2}, Control: Tally{Doubled: 5}}
	require.ErrorIs(t, s.Close(time.Now(), context.Canceled), context.Canceled)
	require.Equal(t, "FAILED", s.Verdict)
}

func TestClose(t *testing.T) {
	t.Parallel()
	good := func() Score {
		return Score{Calls: 3, Faults: 1, Tally: Tally{Identities: 2}, Control: Tally{Doubled: 5}}
	}
	for name, tt := range map[string]struct {
		spoil func(*Score)
		says  string
	}{
		"Held":        {func(*Score) {}, ""},
		"Doubled":     {func(s *Score) { s.Doubled = 1 }, "1 doubled"},
		"Lost":        {func(s *Score) { s.Lost = 1 }, "1 lost"},
		"Differing":   {func(s *Score) { s.Differing = 1 }, "1 differing"},
		"Unanswered":  {func(s *Score) { s.Unanswered = 1 }, "1 unanswered"},
		"NoCalls":     {func(s *Score) { s.Calls = 0 }, "nothing was called"},
		"NoEffects":   {func(s *Score) { s.Identities = 0 }, "nothing was called"},
		"NoFaults":    {func(s *Score) { s.Faults = 0 }, "no fault was applied"},
		"TameControl": {func(s *Score) { s.Control = Tally{} }, "did not go wrong"},
		"MuteControl": {func(s *Score) { s.Control = Tally{Unanswered: 5} }, "did not go wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			tt.spoil(&s)
			err := s.Close(time.Now(), nil)
			if tt.says == "" {
				require.NoError(t, err)
				require.Equal(t, "held", s.Verdict)
				require.Equal(t, 5, s.ControlDoubled)
				return
			}
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, "FAILED", s.Verdict)
		})
	}
}
