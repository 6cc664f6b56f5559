package outside

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
)

// hour is longer than a test takes, in leases.
const hour = float64(time.Hour / lease)

// bundle is a provider without faults, and its client.
type bundle struct {
	*provider
	*caller

	mu      sync.Mutex
	applied map[string]int
}

func setup(t *testing.T, a arm) *bundle {
	t.Helper()
	b := &bundle{applied: map[string]int{}}
	b.provider = newProvider(a, 1, func(kind string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.applied[kind]++
	})
	b.provider.after = func(time.Duration) <-chan time.Time { return time.After(0) }
	b.provider.calmDown()
	server := httptest.NewServer(b.provider)
	t.Cleanup(server.Close)
	b.caller = &caller{task: task{Provider: server.URL}, web: &http.Client{Transport: &external.Transport{Base: &http.Transport{}}}}
	t.Cleanup(b.caller.web.CloseIdleConnections)
	return b
}

// met is the number of times that a fault was applied.
func (b *bundle) met(kind string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applied[kind]
}

// faulty multiplies the rate of faults.
func (b *bundle) faulty(rate float64) {
	b.provider.mu.Lock()
	defer b.provider.mu.Unlock()
	b.provider.calm, b.provider.rate = false, rate
}

// since moves the provider's beginning into the past, in leases.
func (b *bundle) since(n float64) {
	b.provider.mu.Lock()
	defer b.provider.mu.Unlock()
	b.provider.began = time.Now().Add(-leases(n))
}

// change changes the state of a key.
func (b *bundle) change(key string, by time.Duration) {
	b.provider.mu.Lock()
	defer b.provider.mu.Unlock()
	k := b.provider.key(key, time.Now())
	k.since = k.since.Add(by)
}

func (b *bundle) effects(op int) []effect {
	book, _ := b.provider.read()
	return book[charged(op)]
}

func charged(op int) operation { return operation{"charge", op} }

func (b *bundle) id(t *testing.T, key string, op int) string {
	t.Helper()
	out, err := b.caller.charge(t.Context(), charged(op), key, time.Now())
	require.NoError(t, err)
	return out.ID
}

func (b *bundle) find(t *testing.T, op int) (found []Charged) {
	t.Helper()
	require.NoError(t, b.caller.find(t.Context(), charged(op), &found))
	return found
}

func TestProviderKeepsKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{})
	first := b.id(t, "k", 1)
	require.Equal(t, first, b.id(t, "k", 1))
	require.NotEqual(t, first, b.id(t, "", 1))
	require.NotEqual(t, first, b.id(t, "other", 1))
	require.Len(t, b.effects(1), 3)
	require.Len(t, b.find(t, 1), 3)
	require.Empty(t, b.find(t, 3))
	require.Empty(t, b.applied)
}

func TestProviderForgetsKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Forgets: hour})
	b.id(t, "k", 1)
	b.id(t, "k", 1)
	require.Len(t, b.effects(1), 1)
	b.change("k", -time.Hour)
	b.id(t, "k", 1)
	require.Len(t, b.effects(1), 2)
}

// TestProviderForgetsRejectedKeys learns that the row has a rejection. An attempt that was claimed
// before may still send its request.
func TestProviderForgetsRejectedKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Rejects: true})
	b.id(t, "k", 1)
	claimed := time.Now()
	again := func(claimed time.Time) error {
		_, err := b.caller.charge(t.Context(), charged(1), "k", claimed)
		return err
	}
	require.ErrorIs(t, again(claimed), external.ErrExists)
	_, _ = b.provider.find(charged(1), false)
	require.ErrorIs(t, again(time.Now()), external.ErrExists)
	_, _ = b.provider.find(charged(1), true)
	require.ErrorIs(t, again(claimed), external.ErrExists)
	require.Len(t, b.effects(1), 1)
	require.NoError(t, again(time.Now()))
	require.Len(t, b.effects(1), 2)
}

func TestProviderRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{})
	_, err := b.caller.charge(t.Context(), charged(50), "k", time.Now())
	require.ErrorIs(t, err, errDeclined)
	require.Empty(t, b.effects(50))
}

// TestProviderKeepsRefusals asks again after a drawn refusal.
func TestProviderKeepsRefusals(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"Keeps": true, "DoesNot": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, arm{KeepsRefusals: keeps})
			status, _ := b.provider.act(charged(1), "k", false, chanceRefusal, time.Now())
			require.Equal(t, http.StatusPaymentRequired, status)
			_, err := b.caller.charge(t.Context(), charged(1), "k", time.Now())
			require.Equal(t, keeps, errors.Is(err, errDeclined), err)
		})
	}
}

// TestProviderIsHonest claims an attempt so early that it may no longer take effect.
func TestProviderIsHonest(t *testing.T) {
	t.Parallel()
	for name, settles := range map[string]float64{"Settles": hour / 2, "Late": hour / 2, "Unbounded": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := arm{Settles: settles}
			if name == "Late" {
				a = arm{Settles: 1, Late: settles}
			}
			b := setup(t, a)
			_, err := b.caller.charge(t.Context(), charged(1), "k", time.Now().Add(-time.Hour))
			if settles > 0 {
				require.Error(t, err)
				require.Empty(t, b.effects(1))
				require.Equal(t, 1, b.met(tooLate))
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestProviderFaults applies every fault, and compares the effects with the answers.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{})
	b.faulty(8)
	all := func() bool {
		for _, f := range faults {
			if b.met(f.kind) == 0 {
				return false
			}
		}
		return true
	}
	for op := 1; !all(); op++ {
		if op%50 == 0 {
			continue
		}
		out, err := b.caller.charge(t.Context(), charged(op), "k"+time.Now().String(), time.Now())
		effects := b.effects(op)
		if err == nil {
			require.Len(t, effects, 1)
			require.Equal(t, effects[0].ID, out.ID)
		}
		require.LessOrEqual(t, len(effects), 1)
	}
}

// TestProviderHasOutages gets no answer during an outage.
func TestProviderHasOutages(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Outages: true})
	b.faulty(0)
	b.since(-hour)
	b.id(t, "before", 1)
	for op := 2; b.met(lostRequest.kind) == 0 || b.met(lostAnswer.kind) == 0; op++ {
		b.since(1)
		_, err := b.caller.charge(t.Context(), charged(op), "", time.Now())
		require.ErrorAs(t, err, new(*url.Error))
	}
	require.Equal(t, 1, b.met(outageMet))
	b.since(1 + outage)
	b.id(t, "after", 1)
}

// TestProviderCountsFromFirstUse has a key's first request turned away. The key's time runs all the
// same.
func TestProviderCountsFromFirstUse(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Forgets: hour, FirstUse: true})
	b.change("k", -time.Hour/2)
	b.id(t, "k", 1)
	b.id(t, "k", 1)
	require.Len(t, b.effects(1), 1)
	b.change("k", -time.Hour/2)
	b.id(t, "k", 1)
	require.Len(t, b.effects(1), 2)
}

// TestProviderListsFinishedJobs accepts a job and does not list it yet.
func TestProviderListsFinishedJobs(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Settles: hour, Jobs: true})
	_, err := b.caller.charge(t.Context(), charged(1), "", time.Now())
	require.ErrorContains(t, err, "202")
	require.Len(t, b.effects(1), 1)
	require.Empty(t, b.find(t, 1))
}

// TestProviderKeeps500 repeats its first answer, whether it acted or not.
func TestProviderKeeps500(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{Keeps500: true})
	require.Equal(t, brokenAfter, b.provider.keep(failsAfter, 1))
	for range 2 {
		_, err := b.caller.charge(t.Context(), charged(1), "k", time.Now())
		require.ErrorContains(t, err, "500")
	}
	require.Empty(t, b.effects(1))
	require.Equal(t, 2, b.met(keptFailure.kind))
	_, stuck := b.provider.read()
	require.Equal(t, map[int]bool{1: true}, stuck)
}

// TestProviderAnswersAfter acts and then answers with an error.
func TestProviderAnswersAfter(t *testing.T) {
	t.Parallel()
	b := setup(t, arm{After: true})
	b.faulty(100 / 6)
	for op := 1; b.met(conflictAfter.kind) == 0 || b.met(busyAfter.kind) == 0 || b.met(brokenAfter.kind) == 0; op++ {
		_, err := b.caller.charge(t.Context(), charged(op), "k"+time.Now().String(), time.Now())
		if err != nil && op%50 != 0 && !errors.As(err, new(*url.Error)) {
			require.Len(t, b.effects(op), 1, err)
		}
	}
}
