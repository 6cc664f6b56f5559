package scale

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/server"
)

func TestLongSoak(t *testing.T) {
	t.Parallel()
	o := SoakOptions{
		Duration: 12 * time.Second, Rate: 100, Clients: 4, Replays: 0.5, // ten seconds after the first are forgotten
		Retention: 500 * time.Millisecond, Sweep: 100 * time.Millisecond, Every: 2 * time.Second,
	}
	var out bytes.Buffer
	s := setup(t)
	s.out = &out
	lines, tally, err := soak(t.Context(), s, o)
	require.NoError(t, err)
	require.NoError(t, tally.verdict(), "%+v", tally)

	require.Len(t, lines, 6)
	require.Positive(t, tally.firsts)
	require.Positive(t, tally.replays)
	require.Equal(t, tally.firsts, tally.effects, "a first call has one effect, a replay none")
	require.Equal(t, tally.firsts, tally.keys)
	last := lines[len(lines)-1]
	require.Less(t, last.sizes.Records, tally.firsts, "records were forgotten under way")
	require.Positive(t, tally.expired)
	require.Positive(t, tally.forgotten)
	require.Contains(t, out.String(), "too short to tell")
	require.Equal(t, 3*len(lines), strings.Count(out.String(), " MB  "), "three sizes a line, as they came")
}

// A replay that answers otherwise than the first call did is an error, and so is
// an answered call that is run again.
func TestSoakLoadChecksAnswers(t *testing.T) {
	t.Parallel()
	s, ctx := setup(t), t.Context()
	pool, err := server.Pool(ctx, s.url, 2)
	require.NoError(t, err)
	defer pool.Close()
	l := newSoakLoad(SoakOptions{Replays: 1, Retention: time.Hour})
	l.t, err = newField(ctx, pool, dedup.Options{Schema: soakSchema, Retention: dedup.TaskRetention()})
	require.NoError(t, err)

	require.NoError(t, l.call(ctx), "there is nothing to repeat yet")
	require.NoError(t, l.call(ctx))
	require.EqualValues(t, 1, l.tally.firsts)
	require.EqualValues(t, 1, l.tally.replays)

	l.recent[0].value.ID += 1
	require.ErrorContains(t, l.call(ctx), "a replay answered")
	l.recent[0].key = dedup.NewKey()
	require.ErrorContains(t, l.call(ctx), "was run again")

	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, l.call(ended), context.Canceled)
	require.EqualValues(t, 3, l.tally.errors)
	require.Len(t, l.tally.some, 3)

	tally, err := l.settle(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, tally.effects)
	require.EqualValues(t, 2, tally.keys)
}

func TestJudgeSoak(t *testing.T) {
	t.Parallel()

	o := SoakOptions{Retention: 30 * time.Second, Sweep: 5 * time.Second, Every: time.Minute}
	lines := func(sizes []int64, p99 ...time.Duration) (all []soakLine) {
		for i, size := range sizes {
			all = append(all, soakLine{at: time.Duration(i+1) * o.Every, sizes: Sizes{Total: size}, calls: measure.Latency{P99: p99[i]}})
		}
		return all
	}
	sound := lines([]int64{10, 50, 90, 100, 110, 100, 110, 100, 120}, 1, 1, 9, 4, 4, 5, 4, 6, 4)
	leak := lines([]int64{10, 20, 30, 40, 50, 60, 70, 80, 90}, 1, 1, 1, 1, 1, 1, 3, 3, 3)

	v := judgeSoak(sound, o)
	require.Equal(t, soakVerdict{enough: true, size: 1.1, p99: 1}, v)
	v = judgeSoak(leak, o)
	require.Equal(t, soakVerdict{enough: true, size: 1.6, p99: 3}, v)

	require.False(t, judgeSoak(leak[:8], o).enough, "few lines")
	o.Retention = 3 * time.Minute
	require.False(t, judgeSoak(leak, o).enough, "a record lives longer than the first third")
	o.Retention, o.Every = time.Second, time.Second
	short := lines([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	require.False(t, judgeSoak(short, o).enough, "autovacuum had no chance")
}

func TestSoakVerdictIsAnError(t *testing.T) {
	t.Parallel()

	judged := func(tally soakTally) error { return tally.verdict() }
	require.NoError(t, judged(soakTally{firsts: 9, effects: 10, keys: 10}), "one unknown outcome that was committed")
	require.NoError(t, judged(soakTally{firsts: 10, effects: 10, keys: 10}))
	require.EqualError(t, judged(soakTally{firsts: 10, effects: 11, keys: 10}), "1 effects were doubled")
	require.EqualError(t, judged(soakTally{firsts: 10, effects: 9, keys: 9}), "1 calls were answered and have no effect")
	require.ErrorContains(t, judged(soakTally{errors: 2, some: []string{"oh"}}), "2 calls or sweeps failed, the first with: oh")

	leaks := soakVerdict{enough: true, size: 2, p99: 3}
	var out bytes.Buffer
	leaks.write(&out)
	require.Contains(t, out.String(), "THE TABLE GROWS")
	require.Contains(t, out.String(), "CALLS GET SLOWER")
}

// Sweeps are on the account, and so is one that fails, unless the soak is over.
func TestSoakHearsOfSweeps(t *testing.T) {
	t.Parallel()

	l := newSoakLoad(SoakOptions{})
	l.tally = soakTally{errors: 1, some: []string{"a call"}}
	l.TraceSwept(t.Context(), dedup.SweptData{SweepResult: dedup.SweepResult{Expired: 3, Forgotten: 2}})
	l.TraceSwept(t.Context(), dedup.SweptData{SweepResult: dedup.SweepResult{Expired: 1}, Err: errors.New("no room")})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.TraceSwept(ended, dedup.SweptData{Err: context.Canceled})
	require.Equal(t, soakTally{errors: 2, some: []string{"a call", "a sweep: no room"}, expired: 4, forgotten: 2}, l.tally)
}

func TestSoakFlags(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"--duration", "1s"}, {"argument"}} {
		refused(t, SoakCommand(), args)
	}
}
