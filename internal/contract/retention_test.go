package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

const day = 24 * time.Hour

// keptFor reads how long a record is kept and remembered, by its own times.
func keptFor(t *testing.T, b *bundle, key string) dedup.Retention {
	t.Helper()
	read := func(from, to string) time.Duration {
		micros := scalar[int64](t, b, `SELECT round(extract(epoch FROM `+to+` - `+from+`) * 1000000)::bigint FROM tool_dedup WHERE key = $1`, key)
		return time.Duration(micros) * time.Microsecond
	}
	return dedup.Retention{Result: read("created_at", "expires_at"), Tombstone: read("expires_at", "forget_at")}
}

func TestRetention(t *testing.T) {
	t.Parallel()

	for name, row := range map[string]struct {
		option, call, want dedup.Retention
	}{
		"Default":              {want: dedup.Retention{Result: day, Tombstone: 30 * day}},
		"Interactive":          {call: dedup.InteractiveRetention(), want: dedup.Retention{Result: time.Hour, Tombstone: 30 * day}},
		"Task":                 {call: dedup.TaskRetention(), want: dedup.Retention{Result: day, Tombstone: 30 * day}},
		"Batch":                {call: dedup.BatchRetention(), want: dedup.Retention{Result: 7 * day, Tombstone: 30 * day}},
		"Financial":            {call: dedup.FinancialRetention(), want: dedup.Retention{Result: 30 * day, Tombstone: 30 * day}},
		"Option":               {option: dedup.Retention{Result: time.Minute, Tombstone: time.Hour}, want: dedup.Retention{Result: time.Minute, Tombstone: time.Hour}},
		"CallOverrides":        {option: dedup.BatchRetention(), call: dedup.Retention{Result: time.Second, Tombstone: time.Second}, want: dedup.Retention{Result: time.Second, Tombstone: time.Second}},
		"CallsTombstoneOnly":   {option: dedup.BatchRetention(), call: dedup.Retention{Tombstone: time.Second}, want: dedup.Retention{Result: 7 * day, Tombstone: time.Second}},
		"CallsResultOnly":      {option: dedup.Retention{Result: time.Second, Tombstone: time.Second}, call: dedup.Retention{Result: time.Hour}, want: dedup.Retention{Result: time.Hour, Tombstone: 30 * day}},
		"NoTombstone":          {call: dedup.Retention{Result: time.Hour, Tombstone: -1}, want: dedup.Retention{Result: time.Hour}},
		"NoTombstoneAsOption":  {option: dedup.Retention{Tombstone: -1}, want: dedup.Retention{Result: day}},
		"Shortest":             {call: dedup.Retention{Result: time.Millisecond}, want: dedup.Retention{Result: time.Millisecond, Tombstone: 30 * day}},
		"Longest":              {call: dedup.Retention{Result: 36500 * day, Tombstone: 36500 * day}, want: dedup.Retention{Result: 36500 * day, Tombstone: 36500 * day}},
		"NanosecondsAreCutOff": {call: dedup.Retention{Result: time.Second + 1999, Tombstone: time.Second + 999}, want: dedup.Retention{Result: time.Second + 1000, Tombstone: time.Second + 1000}},
	} {
		for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
			t.Run(name+"/"+order.String(), func(t *testing.T) {
				t.Parallel()
				ctx, b := setup(t, &dedup.Options{Retention: row.option, Order: order})
				c := call("k")
				c.Retention = row.call
				result, err := dedup.Do(ctx, b.d, c, effect("k"))
				require.NoError(t, err)
				got := keptFor(t, b, "k")
				require.Equal(t, row.want, got)
				require.Equal(t, got.Result, result.ExpiresAt.Sub(result.CreatedAt))
			})
		}
	}

	// age moves a record into the past.
	age := func(t *testing.T, b *bundle, by time.Duration) {
		t.Helper()
		b.exec(t, `UPDATE tool_dedup SET created_at = created_at - $1::interval, expires_at = expires_at - $1::interval, forget_at = forget_at - $1::interval`, by)
	}

	t.Run("Life", func(t *testing.T) {
		t.Parallel()
		for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
			t.Run(order.String(), func(t *testing.T) {
				t.Parallel()
				ctx, b := setup(t, &dedup.Options{Retention: dedup.Retention{Result: time.Hour, Tombstone: time.Hour}, Order: order})
				first, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
				require.NoError(t, err)

				age(t, b, 59*time.Minute)
				result, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
				require.NoError(t, err)
				require.True(t, result.Replayed)

				age(t, b, 2*time.Minute)
				for range 2 { // with the result still there, and without
					_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
					requireExpired(t, first.CreatedAt.Add(-61*time.Minute), err)
					require.NoError(t, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
						_, err := dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
						requireExpired(t, first.CreatedAt.Add(-61*time.Minute), err)
						return nil
					}))
					swept, err := b.d.Sweep(ctx, nil)
					require.NoError(t, err)
					require.Zero(t, swept.Forgotten)
				}
				require.Equal(t, 1, b.effects(t, "k"))

				age(t, b, time.Hour)
				result, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
				require.NoError(t, err)
				require.False(t, result.Replayed)
				require.Equal(t, 2, b.effects(t, "k"))
				require.Equal(t, 1, b.records(t))
			})
		}
	})

	t.Run("MisuseIsToldOfATombstone", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		_, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.NoError(t, err)
		age(t, b, 2*day)
		other := call("k")
		other.Args = 1
		_, err = dedup.Do(ctx, b.d, other, effect("k"))
		require.ErrorIs(t, err, dedup.ErrKeyReused)
		_, err = b.d.Sweep(ctx, nil)
		require.NoError(t, err)
		_, err = dedup.Do(ctx, b.d, other, effect("k"))
		require.ErrorIs(t, err, dedup.ErrKeyReused)
	})

	t.Run("RefusalExpires", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		_, err := dedup.Do(ctx, b.d, call("k"), refuse(dedup.Final(errOwn)))
		require.ErrorIs(t, err, dedup.ErrRefused)
		age(t, b, 2*day)
		_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.ErrorIs(t, err, dedup.ErrExpired)
	})

	t.Run("BrokenDoesNotExpireBeforeItIsForgotten", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		_, err := dedup.Do(ctx, b.d, call("k"), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
			_, err := tx.Conn().Exec(ctx, "COMMIT")
			return ticket{}, err
		})
		require.ErrorIs(t, err, dedup.ErrBroken)
		age(t, b, 2*day)
		_, err = b.d.Sweep(ctx, nil)
		require.NoError(t, err)
		_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.ErrorIs(t, err, dedup.ErrBroken)
	})

	t.Run("SlowEffectIsNotBornOld", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, &dedup.Options{Retention: dedup.Retention{Result: 50 * time.Millisecond, Tombstone: day}})
		first, err := dedup.Do(ctx, b.d, call("k"), func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(0.1)`)
			return 1, err
		})
		require.NoError(t, err)
		require.True(t, first.ExpiresAt.After(first.CreatedAt))
		began := scalar[bool](t, b, `SELECT expires_at > created_at + interval '49 ms' FROM tool_dedup`)
		require.True(t, began)
	})
}

func requireExpired(t *testing.T, firstAt time.Time, err error) {
	t.Helper()
	var expired *dedup.ExpiredError
	require.ErrorAs(t, err, &expired)
	require.ErrorIs(t, err, dedup.ErrExpired)
	require.False(t, dedup.IsRetryable(err))
	require.True(t, firstAt.Equal(expired.FirstAt), "%s, not %s", expired.FirstAt, firstAt)
	require.Equal(t, time.Hour, expired.ExpiredAt.Sub(expired.FirstAt).Round(time.Millisecond))
	require.Equal(t, time.Hour, expired.ForgetAt.Sub(expired.ExpiredAt).Round(time.Millisecond))
	require.NotContains(t, err.Error(), `"k"`)
}

func TestRetentionOr(t *testing.T) {
	t.Parallel()
	fallback := dedup.Retention{Result: time.Minute, Tombstone: time.Hour}
	for name, row := range map[string]struct{ own, want dedup.Retention }{
		"Nothing":       {dedup.Retention{}, fallback},
		"ResultOnly":    {dedup.Retention{Result: time.Second}, dedup.Retention{Result: time.Second, Tombstone: 30 * day}},
		"TombstoneOnly": {dedup.Retention{Tombstone: time.Second}, dedup.Retention{Result: time.Minute, Tombstone: time.Second}},
		"NoTombstone":   {dedup.Retention{Tombstone: -1}, dedup.Retention{Result: time.Minute, Tombstone: -1}},
		"Both":          {dedup.Retention{Result: 1, Tombstone: 2}, dedup.Retention{Result: 1, Tombstone: 2}},
	} {
		require.Equal(t, row.want, row.own.Or(fallback), name)
	}
}
