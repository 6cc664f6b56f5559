package table

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Rider is a caller's statement in the pipeline that opens the transaction. It stands behind the
// gate, which raises if the statement must not run, so that the server skips the statement. The
// gate only saves work: the primary key decides.
type Rider struct {
	Query wire.Query
	Args  []any
	// Read reads its rows.
	Read func(pgx.Rows) error
	// Stopped is true if the gate raised. Err is the error of the statement behind the gate.
	Stopped bool
	Err     error
}

// Rides reports whether statements may ride. A claim waits inside the server, and the statement
// behind it cannot read its result.
func (t *Table) Rides() bool { return !t.Profile.Claims }

// PrepareRiders prepares riders and the statements that travel with them. limit is that of Open,
// for the latter. If it fails, nothing is left open.
func (t *Table) PrepareRiders(ctx context.Context, on *wire.Conn, limit time.Duration, riders ...wire.Query) error {
	usual := t.usual
	if len(riders) > 1 {
		usual = []wire.Query{t.begin.Query, t.many.lock, t.lookUpAll, t.many.gate, t.many.insert, t.Commit}
	}
	return on.Prepare(ctx, wire.Distinct(append(riders, limited(on, limit, usual)...))...)
}

// gate returns a statement that raises if there is a twin or a record: only the text 'true' is a
// boolean.
func gate(taken, record string) string {
	return `SELECT (CASE WHEN ` + taken + ` THEN 'tool_dedup: a twin of this call is in flight'
             WHEN EXISTS (` + record + `) THEN 'tool_dedup: this call has a record' ELSE 'true' END)::boolean`
}

// manySQL are the statements of a part of a batch.
type manySQL struct{ lock, gate, insert wire.Query }

// read reads the replies to the gate and to the rider, and closes the pipeline.
func (r *Rider) read(p *wire.Pipeline) error {
	opened := !p.Failed()
	p.Exec() // the gate
	passed := !p.Failed()
	p.Rows(r.Read)
	err := p.Close()
	switch {
	case !opened || err == nil:
		return err
	case passed:
		r.Err = err
		return nil
	case wire.SQLState(err) == wire.CodeInvalidText:
		r.Stopped = true
		return nil
	}
	return err
}

// OpenAll is Open for the calls of a part of a batch. If the gate stopped their statements, it
// calls see for each call with a record, and with Busy for each call with a twin in flight. failed
// is the index of the statement that raised behind the gate, or -1.
func (t *Table) OpenAll(ctx context.Context, on *wire.Conn, entries []*Entry, riders []*Rider, see func(n int, s *Seen)) (started time.Time, failed int, err error) {
	locks := make([]int64, len(entries))
	for i, e := range entries {
		locks[i] = e.Lock
	}
	scopes, tools, keys := names(entries)
	p := on.CallersPipeline()
	p.Begin(&t.begin)
	p.Queue(t.many.lock, locks)
	p.Queue(t.lookUpAll, scopes, tools, keys)
	p.Queue(t.many.gate, scopes, tools, keys, locks)
	for i, r := range riders {
		if err := p.QueueArgs(r.Query, r.Args); err != nil {
			return started, i, err
		}
	}
	p.Send(ctx)
	var missed string
	p.Scan(&started, nil, &missed)
	for n := range strings.FieldsSeq(missed) {
		i, _ := strconv.Atoi(n)
		see(i-1, &Seen{Busy: true})
	}
	readAll(p, see)
	p.Exec() // the gate
	failed = -1
	for i, r := range riders {
		before := p.Failed()
		if p.Rows(r.Read); p.Failed() && !before {
			failed = i
		}
	}
	return started, failed, p.Close()
}

// IsStopped reports whether err is the error of the gate.
func IsStopped(err error) bool { return wire.SQLState(err) == wire.CodeInvalidText }
