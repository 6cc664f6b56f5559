package lab

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errTry = errors.New("no answer")

func TestInsist(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers []error // of the tries
		fails   bool
	}{
		"AtOnce":   {[]error{nil}, false},
		"Later":    {[]error{errTry, errTry, nil}, false},
		"Hopeless": {[]error{errTry, Hopeless{errTry}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := 0
			err := Insist(t.Context(), func(_ context.Context, n int) error {
				require.Equal(t, made, n)
				made++
				return tt.answers[n]
			})
			require.Len(t, tt.answers, made)
			require.Equal(t, tt.fails, errors.Is(err, errTry), err)
		})
	}
}

// TestDeliverUntilItEnds ends the campaign before the call has an answer. The call is then not
// unanswered.
func TestDeliverUntilItEnds(t *testing.T) {
	t.Parallel()
	l := NewLedger()
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Deliver(ctx, &Client{}, func(context.Context, *Client, string) (int64, error) {
		cancel()
		return 0, errTry
	}, "k")
	require.ErrorIs(t, err, errTry)
	require.Zero(t, l.tally)
	err = l.Deliver(t.Context(), &Client{}, func(context.Context, *Client, string) (int64, error) {
		return 0, Hopeless{errTry}
	}, "k")
	require.ErrorIs(t, err, errTry)
	require.Equal(t, Tally{Unanswered: 1}, l.tally)
}

// TestTry raises the limit with the tries, up to an end.
func TestTry(t *testing.T) {
	t.Parallel()
	c := &Client{Limit: time.Second, patient: []*Client{{Limit: 4 * time.Second}, {Limit: 16 * time.Second}}}
	for n, want := range map[int]time.Duration{0: 1, raisedAfter - 1: 1, raisedAfter: 4, 2 * raisedAfter: 16, 100: 16} {
		require.Equal(t, want*time.Second, c.Try(n).Limit, n)
	}
	require.Same(t, c, c.Try(0))
	require.NotPanics(t, func() { (&Client{}).Try(100) })
}
