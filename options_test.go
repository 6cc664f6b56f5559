package dedup

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	want := Options{
		Schema:         "public",
		Order:          LockFirst,
		Isolation:      pgx.ReadCommitted,
		Retention:      Retention{Result: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour},
		Retry:          RetryPolicy{MaxAttempts: 12, BaseDelay: 10 * time.Millisecond, MaxDelay: time.Second},
		MaxResultBytes: 1 << 20,
		CommitTimeout:  10 * time.Second,
		IdleTimeout:    time.Minute,
	}

	t.Run("Nil", func(t *testing.T) {
		t.Parallel()
		var none *Options
		got, err := none.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("Zero", func(t *testing.T) {
		t.Parallel()
		given := &Options{}
		got, err := given.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, Options{}, *given, "the caller's options are copied")
	})
	t.Run("ResolvedAgain", func(t *testing.T) {
		t.Parallel()
		got, err := want.resolve()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("Given", func(t *testing.T) {
		t.Parallel()
		given := Options{
			Schema: "Über \"x\"", Order: ClaimFirst, Isolation: pgx.Serializable, Retention: Retention{Result: time.Second, Tombstone: -1},
			MaxWait: -1, Retry: RetryPolicy{MaxAttempts: 1, BaseDelay: 1, MaxDelay: 1}, MaxResultBytes: minMaxResultBytes,
			StoreErrors: true, CommitTimeout: time.Millisecond, IdleTimeout: -1, AsyncCommit: true,
		}
		got, err := given.resolve()
		require.NoError(t, err)
		require.Equal(t, given, got)
	})
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts   Options
		option string
	}{
		"SchemaTooLong":         {Options{Schema: strings.Repeat("x", 64)}, "Schema"},
		"SchemaTooLongInBytes":  {Options{Schema: strings.Repeat("é", 32)}, "Schema"},
		"SchemaNUL":             {Options{Schema: "a\x00b"}, "Schema"},
		"SchemaInvalidUTF8":     {Options{Schema: "\xff"}, "Schema"},
		"OrderUnknown":          {Options{Order: 2}, "Order"},
		"OrderNegative":         {Options{Order: -1}, "Order"},
		"IsolationUncommitted":  {Options{Isolation: pgx.ReadUncommitted}, "Isolation"},
		"IsolationInjected":     {Options{Isolation: "read committed; drop table x"}, "Isolation"},
		"IsolationCase":         {Options{Isolation: "SERIALIZABLE"}, "Isolation"},
		"RetentionNegative":     {Options{Retention: Retention{Result: -1}}, "Retention"},
		"RetentionShort":        {Options{Retention: Retention{Result: time.Millisecond - 1}}, "Retention"},
		"RetentionEndless":      {Options{Retention: Retention{Result: maxRetention + 1}}, "Retention"},
		"TombstoneEndless":      {Options{Retention: Retention{Tombstone: maxRetention + 1}}, "Retention"},
		"AttemptsNegative":      {Options{Retry: RetryPolicy{MaxAttempts: -1}}, "Retry.MaxAttempts"},
		"BaseDelayNegative":     {Options{Retry: RetryPolicy{BaseDelay: -1}}, "Retry.MaxDelay"},
		"MaxDelayNegative":      {Options{Retry: RetryPolicy{MaxDelay: -1}}, "Retry.MaxDelay"},
		"BaseDelayAboveMax":     {Options{Retry: RetryPolicy{BaseDelay: 2 * time.Second}}, "Retry.MaxDelay"},
		"MaxDelayBelowBase":     {Options{Retry: RetryPolicy{MaxDelay: time.Millisecond}}, "Retry.MaxDelay"},
		"ResultsTooSmall":       {Options{MaxResultBytes: minMaxResultBytes - 1}, "MaxResultBytes"},
		"ResultsNegative":       {Options{MaxResultBytes: -1}, "MaxResultBytes"},
		"ResultsTooLarge":       {Options{MaxResultBytes: maxMaxResultBytes + 1}, "MaxResultBytes"},
		"CommitTimeoutNegative": {Options{CommitTimeout: -1}, "CommitTimeout"},
		"CommitTimeoutShort":    {Options{CommitTimeout: time.Millisecond - 1}, "CommitTimeout"},
		"IdleTimeoutShort":      {Options{IdleTimeout: time.Microsecond}, "IdleTimeout"},
		"IdleTimeoutLong":       {Options{IdleTimeout: maxIdleTimeout + 1}, "IdleTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := row.opts.resolve()
			require.Equal(t, Options{}, got)
			var bad *OptionsError
			require.ErrorAs(t, err, &bad)
			require.ErrorIs(t, err, ErrOptions)
			require.Equal(t, row.option, bad.Option)
			require.Contains(t, err.Error(), row.option)
		})
	}
}

// TestRetryPolicyPauses draws pauses from every policy that is accepted.
func TestRetryPolicyPauses(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]RetryPolicy{
		"Default":     {},
		"Constant":    {BaseDelay: time.Second, MaxDelay: time.Second},
		"Shortest":    {BaseDelay: 1, MaxDelay: 1},
		"Many":        {MaxAttempts: math.MaxInt},
		"EndlessMax":  {MaxDelay: math.MaxInt64},
		"EndlessBase": {BaseDelay: math.MaxInt64, MaxDelay: math.MaxInt64},
		"Overflow":    {BaseDelay: math.MaxInt64/2 + 1, MaxDelay: math.MaxInt64 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := (&Options{Retry: policy}).resolve()
			if err != nil {
				require.ErrorIs(t, err, ErrOptions) // refusing is fine too
				return
			}
			for attempt := 1; attempt <= 100; attempt++ {
				bound := opts.Retry.bound(attempt)
				require.LessOrEqual(t, bound, opts.Retry.MaxDelay)
				require.GreaterOrEqual(t, bound, opts.Retry.BaseDelay)
				require.NotPanics(t, func() { bound = fullJitter(bound) })
				require.GreaterOrEqual(t, bound, time.Duration(0))
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	_, err := New(nil, nil)
	var bad *OptionsError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "pool", bad.Option)

	for _, d := range []*Deduper{nil, {}} {
		_, err := NewSweeper(d, nil)
		require.ErrorIs(t, err, ErrOptions)
	}
}

func TestSweepOptions(t *testing.T) {
	t.Parallel()
	for option, opts := range map[string]*SweepOptions{
		"BatchSize": {BatchSize: -1}, "MaxBatches": {MaxBatches: -1},
	} {
		_, err := opts.resolve()
		var bad *OptionsError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, option, bad.Option)
	}
	_, err := (&SweepOptions{BatchSize: maxSweepBatch + 1}).resolve()
	require.ErrorIs(t, err, ErrOptions)
	var none *SweepOptions
	got, err := none.resolve()
	require.NoError(t, err)
	require.Equal(t, defaultSweepBatch, got.BatchSize)
}

func TestOrderString(t *testing.T) {
	t.Parallel()
	require.Equal(t, "lock first", LockFirst.String())
	require.Equal(t, "claim first", ClaimFirst.String())
	require.Equal(t, "Order(7)", Order(7).String())
}
