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

// QueueSetLockTimeout limits how long the statements wait that follow, until
// QueueResetLockTimeout.
func (t *Table) QueueSetLockTimeout(p *wire.Pipeline, limit time.Duration) {
	l := &t.lockTimeout
	if l.spread {
		limit = coarse(limit)
		p.Queue(l.keep)
		p.Queue(wire.Query{Text: "set local lock_timeout = " + lockTimeout(limit)})
	}
	p.Queue(l.set, wire.Text(lockTimeout(limit)))
}

// ReadSetLockTimeout reads the answers of what QueueSetLockTimeout queued.
func (t *Table) ReadSetLockTimeout(results *wire.Results) error {
	if t.lockTimeout.spread {
		return execAll(results, 3)
	}
	return execAll(results, 1)
}

// QueueResetLockTimeout gives back the session's own limit.
func (t *Table) QueueResetLockTimeout(p *wire.Pipeline) {
	if t.lockTimeout.spread {
		p.Queue(t.lockTimeout.release)
	}
	p.Queue(t.lockTimeout.reset)
}

// ReadResetLockTimeout reads the answers of what QueueResetLockTimeout queued.
func (t *Table) ReadResetLockTimeout(results *wire.Results) error {
	if t.lockTimeout.spread {
		return execAll(results, 2)
	}
	return execAll(results, 1)
}

// execAll reads the answers of so many statements.
func execAll(results *wire.Results, n int) error {
	for range n {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// queueLimited queues a statement that may wait for a twin, for no longer than limit; 0
// means for as long as the session allows. It returns how to read what it queued, given
// how to read the statement itself.
func (t *Table) queueLimited(p *wire.Pipeline, limit time.Duration, q wire.Query, params ...wire.Param) func(results *wire.Results, read func() error) error {
	if limit == 0 {
		p.Queue(q, params...)
		return func(_ *wire.Results, read func() error) error { return read() }
	}
	t.QueueSetLockTimeout(p, limit)
	p.Queue(q, params...)
	t.QueueResetLockTimeout(p)
	return func(results *wire.Results, read func() error) error {
		if err := t.ReadSetLockTimeout(results); err != nil {
			return err
		}
		if err := read(); err != nil {
			return err
		}
		return t.ReadResetLockTimeout(results)
	}
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
