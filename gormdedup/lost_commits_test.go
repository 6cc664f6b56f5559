package gormdedup_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// lostCommit is each fault that can meet a COMMIT.
var lostCommit = []faultproxy.Fault{
	{Kind: faultproxy.ReplyReset}, {Kind: faultproxy.ReplyClosed}, {Kind: faultproxy.ReplyCut}, {Kind: faultproxy.Dropped},
	{Kind: faultproxy.CutBeforeSync}, {Kind: faultproxy.ReplyDelayed, Delay: 20 * time.Millisecond},
	{Kind: faultproxy.Delayed, Delay: 10 * time.Millisecond}, {Kind: faultproxy.Hold, Delay: 10 * time.Millisecond},
}

// twinsUnderFaults calls each of keys as often as there are services, at once and until it has an
// answer. Every fifth COMMIT meets a fault.
func twinsUnderFaults(t *testing.T, proxy *faultproxy.Proxy, keys int, services []service, do func(s service, key string) (int64, error)) {
	t.Helper()
	for i := range keys * len(services) {
		fault := lostCommit[i%len(lostCommit)]
		fault.Where, fault.Skip = faultproxy.AtCommit, 4*i
		proxy.Arm(fault)
	}
	for i := range keys {
		key := fmt.Sprint(i)
		answers := make([]int64, len(services))
		var twins sync.WaitGroup
		for n, s := range services {
			twins.Go(func() {
				for s.ctx.Err() == nil {
					id, err := do(s, key)
					if err == nil {
						answers[n] = id
						return
					}
				}
			})
		}
		twins.Wait()
		require.NoError(t, t.Context().Err())
		for _, answer := range answers[1:] {
			require.Equal(t, answers[0], answer, key)
		}
	}
}

// lossy returns services with a pool each behind one proxy. A text may be there twice.
func lossy(t *testing.T, n int) (services []service, proxy *faultproxy.Proxy) {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	_, err := pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `ALTER TABLE notes DROP CONSTRAINT notes_text_key`)
	require.NoError(t, err)
	proxy, err = faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	for range n {
		s, err := newService(db.Pool(t, func(config *pgxpool.Config) {
			behind, err := pgxpool.ParseConfig(proxy.URL())
			require.NoError(t, err)
			config.ConnConfig = behind.ConnConfig
		}), gorm.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { must(s.close()) })
		s.ctx = t.Context()
		services = append(services, s)
	}
	return services, proxy
}

// TestLongLostCommits takes the answers to COMMITs away from calls whose effects write through
// gorm, while twins in other pools make the same calls. Each effect happens once, and all twins
// have its answer.
func TestLongLostCommits(t *testing.T) {
	t.Parallel()
	const keys, twins = 100, 4
	for name, do := range ways {
		if name == "Nested" { // it has no COMMIT of its own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			services, proxy := lossy(t, twins)
			twinsUnderFaults(t, proxy, keys, services, func(s service, key string) (int64, error) {
				result, err := do(s.ctx, s, key, create(key))
				return result.Value.ID, err
			})
			require.Greater(t, faults(proxy), keys/10)
			require.Len(t, services[0].notes(t), keys)
			require.Equal(t, keys, services[0].records(t))
		})
	}
	t.Run("WithoutDedup", func(t *testing.T) { // the control: a call that is repeated after any error
		t.Parallel()
		services, proxy := lossy(t, 1)
		twinsUnderFaults(t, proxy, keys, services, func(s service, key string) (int64, error) {
			var note Note
			err := s.db.WithContext(context.WithoutCancel(s.ctx)).Transaction(func(tx *gorm.DB) (err error) {
				note, err = create(key)(s.ctx, tx)
				return err
			})
			return note.ID, err
		})
		require.Greater(t, len(services[0].notes(t)), keys)
	})
}

// faults counts what the proxy has applied.
func faults(proxy *faultproxy.Proxy) (n int) {
	for _, of := range proxy.Snapshot().Faults {
		n += of
	}
	return n
}
