package orm_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
)

var errNotNested = errors.New("the ORM has no nested transactions")

// TestORMsLoseTheirConnection ends the connection in a statement of each ORM, in a transaction of
// the ORM inside the effect's, and at that one's begin and rollback. Do runs the effect again. DoTx
// in a transaction that the ORM began tells the caller to begin again. Neither is taken for misuse.
func TestORMsLoseTheirConnection(t *testing.T) {
	t.Parallel()
	create := func(ctx context.Context, h handle) (int64, error) { return h.create(ctx, "k") }
	nested := func(ctx context.Context, h handle) (int64, error) {
		if h.nested == nil {
			return 0, errNotNested
		}
		return 0, h.nested(ctx, "k", nil)
	}
	undone := func(ctx context.Context, h handle) (int64, error) {
		if h.nested == nil {
			return 0, errNotNested
		}
		if err := h.nested(ctx, "undone", errOwn); !errors.Is(err, errOwn) {
			return 0, err
		}
		return create(ctx, h)
	}
	for place, c := range map[string]struct {
		effect func(ctx context.Context, h handle) (int64, error)
		at     func(faultproxy.Unit) bool
	}{
		"Statement":       {create, faultproxy.AtSQL("notes")},
		"NestedStatement": {nested, faultproxy.AtSQL("notes")},
		"NestedBegin":     {nested, faultproxy.AtSQL("savepoint sp")},
		"NestedRollback":  {undone, faultproxy.AtSQL("rollback to savepoint sp")},
	} {
		for how, end := range map[string]func(t *testing.T, observer *pgxpool.Pool, at func(faultproxy.Unit) bool) faultproxy.Fault{
			"Cut": func(_ *testing.T, _ *pgxpool.Pool, at func(faultproxy.Unit) bool) faultproxy.Fault {
				return faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: at}
			},
			"Terminated": terminated,
		} {
			for _, o := range orms() {
				t.Run(o.name+"/"+place+"/"+how, func(t *testing.T) {
					t.Parallel()
					s, proxy, observer := proxiedService(t)
					runs := 0
					effect := func(ctx context.Context, h handle) (int64, error) {
						runs++
						return c.effect(ctx, h)
					}

					fault := proxy.Arm(end(t, observer, c.at))
					_, err := o.doTx(t.Context(), s, "doTx", effect)
					fault.Disarm()
					if !errors.Is(err, errNotNested) {
						require.ErrorIs(t, err, dedup.ErrRestartTx)
						require.NotErrorIs(t, err, dedup.ErrInvalid)
						require.Equal(t, 1, runs)
					}
					require.Empty(t, s.notes(t))

					runs = 0
					fault = proxy.Arm(end(t, observer, c.at))
					result, err := o.do(t.Context(), s, "do", effect)
					fault.Disarm()
					if !errors.Is(err, errNotNested) {
						require.NoError(t, err)
						require.Equal(t, 2, runs)
						require.Equal(t, 2, result.Attempts)
						require.Equal(t, []string{"k"}, s.notes(t))
					}
				})
			}
		}
	}
}

// terminated is no fault: another session ends the connection's before its unit arrives. The client
// may see that before the other session has its answer.
func terminated(t *testing.T, observer *pgxpool.Pool, at func(faultproxy.Unit) bool) faultproxy.Fault {
	t.Helper()
	var done atomic.Bool
	return faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		if at(u) && done.CompareAndSwap(false, true) {
			_, _ = observer.Exec(context.WithoutCancel(t.Context()), `SELECT pg_terminate_backend($1)`, u.Backend)
		}
		return false
	}}
}

// proxiedService returns a service whose connections go through a proxy, and a pool of others.
func proxiedService(t *testing.T) (*service, *faultproxy.Proxy, *pgxpool.Pool) {
	t.Helper()
	db := pgtest.New(t)
	proxy, err := faultproxy.New(db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	through, err := pgxpool.ParseConfig(proxy.URL())
	require.NoError(t, err)
	s, err := newService(t.Context(), db.Pool(t, func(config *pgxpool.Config) { config.ConnConfig = through.ConnConfig }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.db.Close() })
	return s, proxy, db.Pool(t)
}
