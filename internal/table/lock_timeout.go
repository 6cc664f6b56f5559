package table

import (
	"math"
	"strconv"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// RowTimeout is how long a claim, or the DELETE of a record that may be forgotten, waits
// inside Postgres for whoever holds the row before the connection is given back.
const RowTimeout = 5 * time.Millisecond

// LimitSpread are the statements that limit how long those wait that come between set and
// reset, where rows are spread. They are for a transaction block.
func LimitSpread(limit time.Duration) (set, reset []string) {
	l := newLockTimeoutSQL(Profile{Spread: true})
	return []string{l.keep.Text, "set local lock_timeout = " + lockTimeout(limit)}, []string{l.release.Text, l.reset.Text}
}

// lockTimeoutSQL limits how long statements wait for rows and locks.
type lockTimeoutSQL struct {
	// set keeps the session's own limit and sets another one, unless its own is shorter;
	// reset gives it back.
	set, reset wire.Query
	// Where rows are spread keep comes first, and SET LOCAL with the limit: Citus passes
	// on no set_config, and SET LOCAL if it is told to. release ends that.
	keep, release wire.Query
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
	return lockTimeoutSQL{
		spread: true,
		keep: wire.NewQuery(`SELECT ` + save + `,
       pg_catalog.set_config(` + passed + `, COALESCE(pg_catalog.current_setting(` + pass + `, true), 'none'), true),
       pg_catalog.set_config(` + pass + `, 'local', true)`),
		set:     wire.NewQuery(`SELECT pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", saved) + `, true)`),
		release: wire.NewQuery(`set local lock_timeout to default`),
		reset: wire.NewQuery(`SELECT ` + giveUp + `,
       pg_catalog.set_config(` + pass + `, pg_catalog.current_setting(` + passed + `), true)`),
	}
}

// usual are the statements to prepare; SET LOCAL takes no parameter.
func (l *lockTimeoutSQL) usual() []wire.Query {
	if l.spread {
		return []wire.Query{l.keep, l.set, l.release, l.reset}
	}
	return []wire.Query{l.set, l.reset}
}

// startLimit limits how long the statements wait for rows and locks that are queued until
// endLimit. A limit of 0 is as long as the session allows.
func (t *Table) startLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	l := &t.lockTimeout
	if l.spread {
		limit = coarse(limit)
		p.Ignore(l.keep)
		p.Ignore(wire.Query{Text: "set local lock_timeout = " + lockTimeout(limit)})
	}
	text := lockTimeout(limit)
	p.Ignore(l.set, &text)
}

// endLimit gives back the session's own limit.
func (t *Table) endLimit(p *wire.Pipeline, limit time.Duration) {
	if limit == 0 {
		return
	}
	if t.lockTimeout.spread {
		p.Ignore(t.lockTimeout.release)
	}
	p.Ignore(t.lockTimeout.reset)
}

// coarse rounds a limit up to two digits of milliseconds, so that the texts that hold one
// are few: connections keep the texts that they have sent.
func coarse(limit time.Duration) time.Duration {
	limit, unit := min(limit, maxLockTimeout), time.Millisecond
	for limit > 100*unit {
		unit *= 10
	}
	return (limit + unit - 1) / unit * unit
}

// maxLockTimeout is the longest lock_timeout: an int32 of milliseconds.
const maxLockTimeout = math.MaxInt32 * time.Millisecond

// lockTimeout is a limit as lock_timeout has it; 0 is none there.
func lockTimeout(limit time.Duration) string {
	return strconv.FormatInt(min(max(limit, time.Millisecond), maxLockTimeout).Milliseconds(), 10)
}

// shorterTimeout is SQL for a lock_timeout of so many milliseconds, or of the session's
// own where that is shorter.
func shorterTimeout(ms, own string) string {
	return "CASE WHEN " + own + " <> '0' AND " + own + "::interval < " + ms + " * interval '1 millisecond' THEN " + own + " ELSE " + ms + "::text END"
}
