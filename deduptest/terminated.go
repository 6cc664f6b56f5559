package deduptest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func (sc *scene) backendTerminated() {
	s := sc.open(nil)
	if s == nil {
		return
	}
	for n := range sc.v.plan.units {
		sc.terminatedAt(s, n+1, "before", HoldRequest)
		sc.terminatedAt(s, n+1, "after", HoldAnswer)
	}
}

// terminatedAt is a case in which the server processes of the pool are ended while
// the nth statement is held.
func (sc *scene) terminatedAt(s *stage, n int, when string, kind Kind) {
	tr := sc.begin("backend terminated %s %s", when, sc.v.plan.name(n))
	defer tr.end()
	held := s.proxy.Inject(Fault{Kind: kind, At: AtStatement, Skip: n - 1})
	defer held.Release()
	replies := tr.start(sc.ctx, s, 0)
	if !tr.reached(held, replies) {
		return
	}
	if err := sc.v.terminate(sc.ctx, s.name); err != nil {
		tr.problemf("nothing was tested: %v", err)
	}
	held.Release()
	_ = tr.took(<-replies)
	tr.applied(held)
	tr.insist(s)
	tr.insist(s)
}

// terminate ends all sessions of a stage, and waits until they are gone.
func (v *verification) terminate(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, v.patience)
	defer cancel()
	var pids []int32 // not the name: the call may be back on a new session before the old one is gone
	err := v.direct.QueryRow(ctx, `
		SELECT coalesce(array_agg(pid) FILTER (WHERE pg_terminate_backend(pid)), '{}')
		FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, name).Scan(&pids)
	switch {
	case err != nil:
		return fmt.Errorf("terminating the backend: %w", err)
	case len(pids) == 0:
		return errors.New("no session of the call's pool was found on the server; is there a pooler in between, or does Tool.Call not use Try.Pool?")
	}
	for gone := false; !gone; pause(ctx, time.Millisecond) {
		err := v.direct.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY ($1))`, pids).Scan(&gone)
		if err != nil {
			return fmt.Errorf("waiting for the end of the backend: %w", err)
		}
	}
	return nil
}
