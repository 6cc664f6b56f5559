package table

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// Limit returns statements that bound waits for rows and locks between set and reset: to limit, and
// to the session's own lock_timeout if that is shorter. A limit of 0 sets no bound. On several
// servers (Profile.Spread) the statements need a transaction block.
func Limit(p Profile, limit time.Duration) (set, reset []string) {
	if limit == 0 {
		return nil, nil
	}
	l, text := newLockTimeoutSQL(p), lockTimeout(roundUp(limit))
	if p.Spread {
		return []string{l.keep.Text, "set local lock_timeout = " + text}, []string{l.release.Text, l.reset.Text}
	}
	return []string{strings.ReplaceAll(l.set.Text, "$1::bigint", text)}, []string{l.reset.Text}
}

// Prepare prepares queries on a connection. Each of them waits for a lock on its table for at most
// limit, or the session's own lock_timeout if that is shorter. A limit of 0 sets no bound.
//
// Nor is there a bound if pgx prepares, as on a connection with a tracer of pgx.
func Prepare(ctx context.Context, on *wire.Conn, limit time.Duration, queries ...wire.Query) error {
	return on.Prepare(ctx, limited(on, limit, queries)...)
}

// limited adds texts with a limit to queries, if one of them needs to be prepared.
func limited(on *wire.Conn, limit time.Duration, queries []wire.Query) []wire.Query {
	if limit == 0 || !on.NeedsPrepare(queries...) {
		return queries
	}
	set, reset := Limit(Profile{}, limit) // only the connection's own server prepares
	return slices.Concat([]wire.Query{{Text: set[0]}}, queries, []wire.Query{{Text: reset[0]}})
}

// lockTimeoutSQL bounds how long statements wait for rows and locks.
type lockTimeoutSQL struct {
	// set saves the session's own limit and sets another one, unless its own is shorter. reset
	// restores it.
	set, reset wire.Query
	// If rows are spread, keep comes first, then SET LOCAL with the limit: Citus passes SET LOCAL
	// on if keep tells it to, but never set_config. release ends that. kept are the columns of keep
	// behind a comma, for a statement that is sent anyway.
	keep, release wire.Query
	kept          string
	spread        bool
}

func newLockTimeoutSQL(p Profile) lockTimeoutSQL {
	const (
		save   = `pg_catalog.set_config('tool_dedup.lock_timeout', pg_catalog.current_setting('lock_timeout'), true)`
		saved  = `pg_catalog.current_setting('tool_dedup.lock_timeout')`
		giveUp = `pg_catalog.set_config('lock_timeout', ` + saved + `, true)`
		pass   = `'citus.propagate_set_commands'`
		passed = `'tool_dedup.propagate'`
	)
	if !p.Spread {
		return lockTimeoutSQL{
			set: wire.NewQuery(`SELECT ` + save + `,
       pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", "own.max") + `, true)
  FROM (SELECT pg_catalog.current_setting('lock_timeout') AS max) own`),
			reset: wire.NewQuery(`SELECT ` + giveUp),
		}
	}
	const kept = `, ` + save + `,
       pg_catalog.set_config(` + passed + `, COALESCE(pg_catalog.current_setting(` + pass + `, true), 'none'), true),
       pg_catalog.set_config(` + pass + `, 'local', true)`
	return lockTimeoutSQL{
		spread: true, kept: kept,
		keep:    wire.NewQuery(`SELECT ''` + kept),
		set:     wire.NewQuery(`SELECT pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", saved) + `, true)`),
		release: wire.NewQuery(`set local lock_timeout to default`),
		reset: wire.NewQuery(`SELECT ` + giveUp + `,
       pg_catalog.set_config(` + pass + `, pg_catalog.current_setting(` + passed + `), true)`),
	}
}

// usual returns the statements to prepare. SET LOCAL takes no parameter and is not among them.
func (l *lockTimeoutSQL) usual() []wire.Query {
	if l.spread {
		return []wire.Query{l.keep, l.set, l.release, l.reset}
	}
	return []wire.Query{l.set, l.reset}
}

// startLimit bounds the waits for rows and locks of the statements that are queued until endLimit.
// A limit of 0 sets no bound.
func (t *Table) startLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	if t.lockTimeout.spread {
		p.Ignore(t.lockTimeout.keep)
	}
	t.startKeptLimit(p, limit)
}

// startKeptLimit is startLimit behind a statement that did the work of keep.
func (t *Table) startKeptLimit(p *wire.Pipeline, limit time.Duration) {
	if t.lockTimeout.spread {
		limit = roundUp(limit)
		p.Ignore(wire.Query{Text: "set local lock_timeout = " + lockTimeout(limit)})
		if limit == RowTimeout { // sessions seldom have a shorter one, and a statement costs a call 8 % there
			return
		}
	}
	text := lockTimeout(limit)
	p.Ignore(t.lockTimeout.set, &text)
}

// GaveUp reports whether lock_timeout ended the statement that failed with err.
func GaveUp(err error) bool { return wire.SQLState(err) == wire.CodeLockNotAvailable }

// CancelledAtLimit reports whether a statement that took so long was cancelled when its limit was
// over. If the lock is granted just as lock_timeout fires, and the statement then waits for another
// lock, PostgreSQL reports a cancelled statement. A statement_timeout and an operator cancel in the
// same way: so try once more, and believe a second error.
func CancelledAtLimit(err error, took, limit time.Duration) bool {
	return wire.SQLState(err) == wire.CodeQueryCanceled && limit > 0 && took >= limit
}

// endLimit restores the session's own limit.
func (t *Table) endLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	if t.lockTimeout.spread {
		p.Ignore(t.lockTimeout.release)
	}
	p.Ignore(t.lockTimeout.reset)
}

// roundUp rounds a limit up to two digits of milliseconds, so that there are few different texts:
// connections keep the texts that they sent.
func roundUp(limit time.Duration) time.Duration {
	limit, unit := min(limit, maxLockTimeout), time.Millisecond
	for limit > 100*unit {
		unit *= 10
	}
	return (limit + unit - 1) / unit * unit
}

// maxLockTimeout is the maximum of lock_timeout: an int32 of milliseconds.
const maxLockTimeout = math.MaxInt32 * time.Millisecond

// lockTimeout returns a limit as a value of lock_timeout, in which 0 sets no bound.
func lockTimeout(limit time.Duration) string {
	return strconv.FormatInt(min(max(limit, time.Millisecond), maxLockTimeout).Milliseconds(), 10)
}

// shorterTimeout returns SQL for the shorter of two lock_timeouts: ms milliseconds, and the
// session's own.
func shorterTimeout(ms, own string) string {
	return "CASE WHEN " + own + " <> '0' AND " + own + "::interval < " + ms + " * interval '1 millisecond' THEN " + own + " ELSE " + ms + "::text END"
}
