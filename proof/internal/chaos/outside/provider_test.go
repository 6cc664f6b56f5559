package outside

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// start returns a provider without faults and a client of it.
func start(t *testing.T, a arm, lease time.Duration) (*provider, *client) {
	t.Helper()
	f := longForm
	f.lease = lease
	p, err := startProvider(&a, f, 1)
	require.NoError(t, err)
	t.Cleanup(p.close)
	p.calmDown()
	c := newClient(p.URL)
	t.Cleanup(c.http.CloseIdleConnections)
	return p, c
}

func TestProviderKeepsKeys(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge"}, time.Second)
	charge := func(key string, op int) string {
		out, err := c.charge(t.Context(), "charge", key, time.Now(), Charge{op})
		require.NoError(t, err)
		return out.ID
	}
	first := charge("k", 1)
	require.Equal(t, first, charge("k", 1))
	require.NotEqual(t, first, charge("", 1))
	require.NotEqual(t, charge("other", 1), first)
	require.Len(t, p.effects("charge")[1], 3)
	found, err := c.find(t.Context(), "charge", Charge{1})
	require.NoError(t, err)
	require.Len(t, found, 3)
	found, err = c.find(t.Context(), "charge", Charge{3})
	require.NoError(t, err)
	require.Empty(t, found)
	require.Empty(t, p.applied())
}

func TestProviderForgetsKeys(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge", forgets: 1}, time.Nanosecond)
	for range 2 {
		_, err := c.charge(t.Context(), "charge", "k", time.Now(), Charge{1})
		require.NoError(t, err)
	}
	require.Len(t, p.effects("charge")[1], 2)
}

func TestProviderRefuses(t *testing.T) {
	t.Parallel()
	_, c := start(t, arm{name: "charge"}, time.Second)
	_, err := c.charge(t.Context(), "charge", "k", time.Now(), Charge{50})
	require.ErrorIs(t, err, errDeclined)
}

// TestProviderIsHonest claims an attempt so early that it may take effect no more.
func TestProviderIsHonest(t *testing.T) {
	t.Parallel()
	for name, settles := range map[string]bool{"Settles": true, "Unbounded": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := start(t, arm{name: "charge", settles: settles}, time.Second)
			_, err := c.charge(t.Context(), "charge", "k", time.Now().Add(-time.Hour), Charge{1})
			if settles {
				require.Error(t, err)
				require.Empty(t, p.effects("charge"))
				require.Equal(t, map[string]int{string(tooLate): 1}, p.applied())
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestProviderFaults has every fault applied, and compares what happened with what was
// answered.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge"}, time.Millisecond)
	p.mu.Lock()
	p.calm = false
	p.form.rate = 8
	p.mu.Unlock()
	for op := 1; len(p.applied()) < len(faults); op++ {
		if op%50 == 0 {
			continue
		}
		out, err := c.charge(t.Context(), "charge", "k"+time.Now().String(), time.Now(), Charge{op})
		effects := p.effects("charge")[op]
		if err == nil {
			require.Len(t, effects, 1)
			require.Equal(t, effects[0].ID, out.ID)
		}
		require.LessOrEqual(t, len(effects), 1)
	}
}

// TestProviderCountsFromFirstUse has a key's first request turned away: its time has begun.
func TestProviderCountsFromFirstUse(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge", forgets: 1, firstUse: true}, time.Hour)
	p.use("k")
	p.mu.Lock()
	p.first["k"] = p.first["k"].Add(-time.Hour / 2)
	p.mu.Unlock()
	charge := func() {
		_, err := c.charge(t.Context(), "charge", "k", time.Now(), Charge{1})
		require.NoError(t, err)
	}
	charge()
	charge()
	require.Len(t, p.effects("charge")[1], 1)
	p.mu.Lock()
	p.first["k"] = p.first["k"].Add(-time.Hour / 2)
	p.mu.Unlock()
	charge()
	require.Len(t, p.effects("charge")[1], 2)
}

// TestProviderListsFinishedJobs accepts a job, and does not list it yet.
func TestProviderListsFinishedJobs(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge", settles: true, jobs: true}, time.Hour)
	_, err := c.charge(t.Context(), "charge", "", time.Now(), Charge{1})
	require.ErrorContains(t, err, "202")
	require.Len(t, p.effects("charge")[1], 1)
	found, err := c.find(t.Context(), "charge", Charge{1})
	require.NoError(t, err)
	require.Empty(t, found)
}

// TestProviderKeeps500 answers with what it has answered once, whether it has acted or not.
func TestProviderKeeps500(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge", keeps500: true}, time.Second)
	require.True(t, p.keeps(failsAfter, 1))
	for range 2 {
		_, err := c.charge(t.Context(), "charge", "k", time.Now(), Charge{1})
		require.ErrorContains(t, err, "500")
	}
	require.Empty(t, p.effects("charge"))
	require.Equal(t, map[int]bool{1: true}, p.unanswerable())
}

// TestProviderAnswersAfter has acted on what it answers with an error.
func TestProviderAnswersAfter(t *testing.T) {
	t.Parallel()
	p, c := start(t, arm{name: "charge", after: true}, time.Millisecond)
	p.mu.Lock()
	p.calm, p.form.rate = false, 100/answeredAfter
	p.mu.Unlock()
	after := func() (n int) {
		counts := p.applied()
		for _, f := range [...]fault{conflictAfter, busyAfter, brokenAfter} {
			if n++; counts[string(f)] == 0 {
				return 0
			}
		}
		return n
	}
	for op := 1; after() == 0; op++ {
		_, err := c.charge(t.Context(), "charge", "k"+time.Now().String(), time.Now(), Charge{op})
		if err != nil && op%50 != 0 && !errors.As(err, new(*url.Error)) {
			require.Len(t, p.effects("charge")[op], 1, err)
		}
	}
}
