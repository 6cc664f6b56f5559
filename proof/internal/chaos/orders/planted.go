package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
	"github.com/tooldedup/dedup/internal/orders"
)

// bug is an implementation that looks right and is wrong, and a mix that shows it.
type bug struct {
	name string
	mix  orders.Mix
	orders.Bug
}

// Some bugs rewrite a statement on its way to the server, so the library's own calls go wrong. The
// others replace the library with a caller that has the bug.
var bugs = []bug{
	{"the lock left out", mix("Do", "DoTx"), orders.Bug{Rewrite: withoutLock}},
	{"a record that does nothing where there is one", mix("Do", "Do"), orders.Bug{Rewrite: func(sql string) string {
		return replaced(withoutLock(sql), `AS held (\(scope[\s\S]*)RETURNING created_at`, "AS held ${1} ON CONFLICT DO NOTHING RETURNING created_at")
	}}},
	{"the gate left out", mix("DoStatement", "DoTx"), orders.Bug{Rewrite: func(sql string) string {
		return replaced(sql, `SELECT \(CASE WHEN NOT`, "SELECT (CASE WHEN true THEN 'true' WHEN NOT")
	}}},
	{"a look-up older than the lock", mix("BeginFunc", "DoTx"), orders.Bug{Rewrite: func(sql string) string {
		return replaced(sql, `(?i)isolation level read committed`, "isolation level repeatable read")
	}}},
	{"a lock of the session", failing(mix("Do", "Do")), orders.Bug{Rewrite: func(sql string) string {
		return replaced(sql, `pg_try_advisory_xact_lock\(`, "pg_try_advisory_lock(")
	}}},
	{"a savepoint that is not rolled back to", failing(mix("DoTx", "Do")), orders.Bug{Rewrite: func(sql string) string {
		return replaced(sql, `rollback to savepoint \w+`, "select 1")
	}}},
	{"a Reset that deletes nothing", beside(mix("Do", "DoStatement"), orders.Reset, orders.Recorded), orders.Bug{Rewrite: func(sql string) string {
		return replaced(sql, `WITH freed AS \(\s*DELETE FROM (\S+)([\s\S]*?)RETURNING ([^)]*)\)`, "WITH freed AS (SELECT ${3} FROM ${1}${2})")
	}}},
	{"a sweep that forgets too early", beside(mix("Do", "DoTx"), orders.Sweep, orders.Due), orders.Bug{Sweep: sweepsTooEarly}},
	{"a record that is older than the call", twice(beside(mix("Do"), orders.Reset, orders.Nothing)), orders.Bug{Call: new(cache).call}},
	{"a lost COMMIT taken as not committed", faulty(mix("Do", "Do")), orders.Bug{Call: textbook(runsAgain)}},
	{"a lost COMMIT taken as committed", faulty(mix("Do", "Do")), orders.Bug{Call: textbook(believes)}},
	{"a lost COMMIT resolved by a look without the lock", twiceFailing(faulty(mix("Do", "Do"))), orders.Bug{Call: looksWithoutLock}},
	{"an error of the effect that is believed without a look", mix("Do", "Do"), orders.Bug{Call: textbook(nil)}},
	{"the effect committed before its record", mix("Do", "DoTx"), orders.Bug{Call: commitsFirst}},
	{"an answer before the commit", faulty(mix("DoTx", "Do")), orders.Bug{Call: answersBefore}},
}

func mix(names ...string) (m orders.Mix) {
	for _, name := range names {
		for _, w := range orders.Ways {
			if w.Name == name {
				m.Ways = append(m.Ways, w)
			}
		}
	}
	return m
}

func failing(m orders.Mix) orders.Mix { m.Fails = 1; return m }

// twiceFailing makes the second run of a caller's effect fail.
func twiceFailing(m orders.Mix) orders.Mix { m.Fails = 2; return m }

func faulty(m orders.Mix) orders.Mix { m.Faults = schedule.Faults; return m }
func twice(m orders.Mix) orders.Mix  { m.Twice = true; return m }
func beside(m orders.Mix, what orders.Beside, before orders.Before) orders.Mix {
	m.Beside, m.Before = what, before
	return m
}

func replaced(sql, pattern, by string) string {
	return regexp.MustCompile(pattern).ReplaceAllString(sql, by)
}

// withoutLock makes every attempt to lock succeed and every wait for a lock end at once.
func withoutLock(sql string) string {
	sql = replaced(sql, `pg_catalog\.pg_try_advisory_xact_lock(_shared)?\(\$(\d)::bigint\)`, "($$${2}::bigint IS NOT NULL)")
	return strings.ReplaceAll(sql, "pg_catalog.pg_advisory_xact_lock(", "pg_catalog.int8(")
}

const (
	lookUp = `SELECT result FROM tool_dedup WHERE scope = $1 AND tool = $2 AND key = $3`
	write  = `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
VALUES ($1, $2, $3, $4, 'done', $5, now(), now() + interval '1 day', now() + interval '2 days')`
)

// found reads the record of a call.
func found(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, call dedup.Call) (told orders.Told, there bool, err error) {
	var text string
	err = db.QueryRow(ctx, lookUp, call.Scope, call.Tool, call.Key).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return told, false, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	told.Replayed = true
	return told, err == nil, err
}

func record(ctx context.Context, tx pgx.Tx, call dedup.Call, run int64, insert string) error {
	print, err := dedup.FingerprintOf(call.Args)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, insert, call.Scope, call.Tool, call.Key, print[:], fmt.Sprintf(`{"run":%d}`, run))
	return err
}

// attempt looks up, runs, writes and commits.
func attempt(ctx context.Context, c *orders.Caller, job orders.Job, look bool, insert string) (told orders.Told, committing bool, err error) {
	tx, err := c.Pool.Begin(ctx)
	if err != nil {
		return told, false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if look {
		if told, there, err := found(ctx, tx, job.Call); there || err != nil {
			return told, false, err
		}
	}
	if told.Run, err = job.Effect(ctx, tx); err != nil {
		return told, false, err
	}
	if err = record(ctx, tx, job.Call, told.Run, insert); err != nil {
		return told, false, err
	}
	return told, true, tx.Commit(ctx)
}

// doubtful handles a COMMIT that failed.
type doubtful func(ctx context.Context, c *orders.Caller, job orders.Job, told orders.Told, err error) (orders.Told, error)

// textbook makes a call in the textbook's way, without waiting for a twin.
func textbook(then doubtful) func(context.Context, *orders.Caller, orders.Way, orders.Job) (orders.Told, error) {
	return func(ctx context.Context, c *orders.Caller, _ orders.Way, job orders.Job) (orders.Told, error) {
		for {
			told, committing, err := attempt(ctx, c, job, true, write)
			server, said := errors.AsType[*pgconn.PgError](err)
			switch {
			case ctx.Err() != nil:
				return told, err
			case committing && err != nil && then != nil:
				return then(ctx, c, job, told, err)
			case then != nil && err != nil && (!said || server.Code == "23505" || server.Code == "57P01"):
				continue // it lost a race, or its connection before the COMMIT
			}
			return told, err
		}
	}
}

// runsAgain takes the COMMIT as not committed and runs again without a look.
func runsAgain(ctx context.Context, c *orders.Caller, job orders.Job, _ orders.Told, _ error) (orders.Told, error) {
	told, _, err := attempt(ctx, c, job, false, write+` ON CONFLICT (scope, tool, key) DO UPDATE SET result = EXCLUDED.result`)
	return told, err
}

// believes takes the COMMIT as committed.
func believes(_ context.Context, _ *orders.Caller, _ orders.Job, told orders.Told, _ error) (orders.Told, error) {
	return told, nil
}

// looksWithoutLock has the library make one attempt. After a COMMIT in doubt it looks for the
// record, and takes a missing record for a rollback.
func looksWithoutLock(ctx context.Context, c *orders.Caller, _ orders.Way, job orders.Job) (orders.Told, error) {
	var run int64
	r, err := dedup.Do(ctx, c.Once, job.Call, func(ctx context.Context, tx pgx.Tx) (t told, err error) {
		t.Run, err = job.Effect(ctx, tx)
		return t, err
	})
	run = r.Value.Run
	if !errors.Is(err, dedup.ErrOutcomeUnknown) {
		return orders.Told{Run: run, Replayed: r.Replayed}, err
	}
	answer, there, looked := found(ctx, c.Pool, job.Call)
	if there || looked != nil {
		return answer, looked
	}
	return answer, orders.ErrEffect
}

type told struct {
	Run int64 `json:"run"`
}

// cache answers every call with the first answer, even after the record is gone.
type cache struct {
	mu    sync.Mutex
	known map[string]orders.Told
}

func (k *cache) call(ctx context.Context, c *orders.Caller, right orders.Way, job orders.Job) (orders.Told, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if told, there := k.known[job.Call.Key]; there {
		told.Replayed = true
		return told, nil
	}
	told, err := right.Call(ctx, c, job)
	if k.known == nil {
		k.known = map[string]orders.Told{}
	}
	if err == nil {
		k.known[job.Call.Key] = told
	}
	return told, err
}

// sweepsTooEarly sweeps by a clock that is two months ahead.
func sweepsTooEarly(ctx context.Context, c *orders.Caller) error {
	_, err := c.Pool.Exec(ctx, `DELETE FROM tool_dedup WHERE forget_at < now() + interval '2 months'`)
	return err
}

// commitsFirst commits the effect and then records it.
func commitsFirst(ctx context.Context, c *orders.Caller, _ orders.Way, job orders.Job) (orders.Told, error) {
	told, there, err := found(ctx, c.Pool, job.Call)
	if there || err != nil {
		return told, err
	}
	for i, step := range []func(pgx.Tx) error{
		func(tx pgx.Tx) (err error) { told.Run, err = job.Effect(ctx, tx); return err },
		func(tx pgx.Tx) error { return record(ctx, tx, job.Call, told.Run, write) },
	} {
		if err := pgx.BeginFunc(ctx, c.Pool, step); err != nil {
			return told, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return told, nil
}

// answersBefore returns the answer of a call before its transaction is committed.
func answersBefore(ctx context.Context, c *orders.Caller, right orders.Way, job orders.Job) (orders.Told, error) {
	tx, err := c.Pool.Begin(ctx)
	if err != nil {
		return right.Call(ctx, c, job)
	}
	r, err := dedup.DoTx(ctx, c.D, tx, job.Call, func(ctx context.Context, tx pgx.Tx) (t told, err error) {
		t.Run, err = job.Effect(ctx, tx)
		return t, err
	})
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return right.Call(ctx, c, job)
	}
	_ = tx.Commit(ctx)
	return orders.Told{Run: r.Value.Run, Replayed: r.Replayed}, nil
}
