package scale

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestSweepLog(t *testing.T) {
	t.Parallel()

	var log sweepLog
	log.TraceSwept(t.Context(), dedup.SweptData{SweepResult: dedup.SweepResult{Expired: 3, Forgotten: 2}})
	log.TraceSwept(t.Context(), dedup.SweptData{SweepResult: dedup.SweepResult{Expired: 1}, Err: errors.New("no room")})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	log.TraceSwept(ended, dedup.SweptData{Err: context.Canceled})

	tally := SoakTally{Errors: 1, Some: []string{"a call"}}
	log.addTo(&tally)
	require.Equal(t, SoakTally{Errors: 2, Some: []string{"a call", "a sweep: no room"}, Expired: 4, Forgotten: 2}, tally)
}
