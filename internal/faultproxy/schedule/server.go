package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// waits asks the server which of the released trips wait for another caller, and marks them. A wait
// for any other session passes without help.
func (r *run) waits(ctx context.Context) error {
	var pids []int32
	for _, a := range r.actors {
		if a.out != nil {
			pids = append(pids, a.out.unit.Backend)
		}
	}
	blockers := map[int32][]int32{}
	rows, err := r.Own.Query(ctx, `SELECT pid, pg_blocking_pids(pid) FROM unnest($1::int[]) AS t (pid)`, pids)
	if err != nil {
		return err
	}
	var pid int32
	var by []int32
	if _, err := pgx.ForEachRow(rows, []any{&pid, &by}, func() error {
		blockers[pid] = slices.Clone(by)
		return nil
	}); err != nil {
		return err
	}
	for _, a := range r.actors {
		if a.out == nil {
			continue
		}
		by := blockers[a.out.unit.Backend]
		stranger := func(pid int32) bool { return !r.pids[pid] }
		onItsWay := func(pid int32) bool { return slices.Contains(pids, pid) }
		a.out.blocked = len(by) > 0 && !slices.ContainsFunc(by, stranger)
		a.out.deadlocked = a.out.blocked && slices.ContainsFunc(by, onItsWay)
	}
	return nil
}

// holds reports whether a server process holds an advisory lock or has written, and whether its
// transaction is aborted.
func (r *run) holds(ctx context.Context, pid int32) (something, aborted bool, err error) {
	err = r.Own.QueryRow(ctx, `
SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND locktype IN ('advisory', 'transactionid')),
       EXISTS (SELECT FROM pg_stat_get_activity($1) WHERE state = 'idle in transaction (aborted)')`, pid).Scan(&something, &aborted)
	return something, aborted, err
}

// end ends a server process, and waits until it is gone.
func (r *run) end(ctx context.Context, pid int32) error {
	for {
		var gone bool
		err := r.Own.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_get_activity($1)`, pid).Scan(&gone)
		if err != nil || gone {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
