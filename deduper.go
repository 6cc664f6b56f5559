package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Deduper runs write tools once. It is safe for concurrent use and starts no
// goroutines; make one per pool and keep it.
type Deduper struct {
	pool    *pgxpool.Pool
	opts    Options
	flights flights
	trace   tracers
	stats   stats
	texts   statementTexts
	clock   serverClock
	// combines is true when the options let effect and record be one statement: see
	// call.combines.
	combines bool
	// tables are for the engine that was found; of one that is not known yet before.
	tables   atomic.Pointer[table.Table]
	examined atomic.Bool // see checkTable
	// home is the pool's database. examinedElsewhere has others that callers'
	// transactions are in, and whose table was examined, with its *table.Table.
	home              string
	examinedElsewhere sync.Map
}

// New returns a Deduper that keeps its records in the tool_dedup table of
// pool's database. It sends nothing; call migrations.Check at start-up to find
// out whether the table is there and sound. A Deduper's first call looks for
// itself whether the table can decide races at all, which is its one extra round
// trip. A nil opts means the defaults. The error is an [ErrInvalid].
func New(pool *pgxpool.Pool, opts *Options) (*Deduper, error) {
	if pool == nil {
		return nil, invalidOption("pool", "must not be nil")
	}
	resolved, err := opts.resolve()
	if err != nil {
		return nil, err
	}
	trace, err := newTracers(resolved.Tracer)
	if err != nil {
		return nil, err
	}
	d := &Deduper{
		pool: pool, home: wire.HomeOf(pool.Config().ConnConfig), opts: resolved, trace: trace,
		clock: serverClock{made: time.Now()}, stats: stats{since: time.Now()},
		combines: !resolved.SeparateStatements && resolved.Order == LockFirst && resolved.Isolation == pgx.ReadCommitted,
	}
	d.tables.Store(d.tableOn(examiner.Unknown))
	d.texts.table = d.table()
	return d, nil
}

// tableOn makes the statements for an engine.
func (d *Deduper) tableOn(engine examiner.Engine) *table.Table {
	return table.New(table.Options{
		Schema: d.opts.Schema, Engine: engine, ClaimFirst: d.opts.Order == ClaimFirst, Isolation: d.opts.Isolation,
		IdleTimeout: d.opts.IdleTimeout, AsyncCommit: d.opts.AsyncCommit, MaxResultBytes: d.opts.MaxResultBytes,
	})
}

// table is the table of the pool's database.
func (d *Deduper) table() *table.Table { return d.tables.Load() }

// Pool returns the pool that d was made with.
func (d *Deduper) Pool() *pgxpool.Pool { return d.pool }

// Options returns the options in use, with the defaults filled in.
func (d *Deduper) Options() Options { return d.opts }

// Stats returns what d has counted. Counting costs a call no allocation and no round trip.
func (d *Deduper) Stats() Stats { return d.stats.snapshot() }

// usable checks what every function is called with.
func (d *Deduper) usable(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid("ctx", "must not be nil")
	case d == nil || d.pool == nil:
		return invalid("d", "must come from New")
	}
	return nil
}

// checkTable examines the table of the pool's database once in the life of a Deduper,
// before the first effect, in one round trip. It returns an ErrSchema where the table
// cannot keep the promise; that is not remembered, so that it can be repaired.
func (d *Deduper) checkTable(ctx context.Context, conn *pgx.Conn) error {
	if d.examined.Load() {
		return nil
	}
	problems, err := d.examineOnce(ctx, conn)
	if err == nil && problems != nil {
		err = schemaError(problems...)
	}
	if err == nil {
		d.examined.Store(true)
	}
	return err
}

// findEngine finds out on which engine the table is, unless that is known.
func (d *Deduper) findEngine(ctx context.Context, conn *pgx.Conn) error {
	if d.table().Engine() != examiner.Unknown {
		return nil
	}
	_, err := d.examineOnce(ctx, conn)
	return err
}

// examineOnce finds out on which engine the table of the pool's database is, and what is wrong
// with it.
func (d *Deduper) examineOnce(ctx context.Context, conn *pgx.Conn) (problems []string, err error) {
	x, err := d.examine(ctx, conn)
	if err != nil {
		return nil, err
	}
	d.clock.seen(x.Now)
	if d.table().Engine() != x.Engine {
		d.tables.Store(d.tableOn(x.Engine))
	}
	return x.Problems, nil
}

// checkTableOf is checkTable for a caller's transaction, which may be in another database
// than the pool's connections: then that is examined once.
func (d *Deduper) checkTableOf(ctx context.Context, tx pgx.Tx) (*table.Table, error) {
	conn := guard.ConnOf(tx)
	home := wire.Home(conn)
	if home == d.home {
		err := d.checkTable(ctx, conn)
		return d.table(), err
	}
	if known, ok := d.examinedElsewhere.Load(home); ok {
		return known.(*table.Table), nil
	}
	x, err := d.examine(ctx, conn)
	if err == nil && x.Problems != nil {
		err = schemaError(x.Problems...)
	}
	if err != nil {
		return nil, err
	}
	there := d.tableOn(x.Engine)
	d.examinedElsewhere.Store(home, there)
	return there, nil
}

// reexamine has the next call examine the table again.
func (d *Deduper) reexamine() {
	d.examined.Store(false)
	d.examinedElsewhere.Clear()
}

func (d *Deduper) examine(ctx context.Context, conn *pgx.Conn) (examiner.Examination, error) {
	return examiner.Examine(ctx, conn, d.opts.Schema, d.opts.Order == ClaimFirst)
}

// schemaError is the error of a table that cannot decide races.
func schemaError(problems ...string) error {
	return &Error{Answer: ErrSchema, Err: fmt.Errorf("%s; migrations.Check and `dedup migrate check` say what to do", strings.Join(problems, "; "))}
}

// explained is err as cleaned returns it, and says more of a missing table or privilege, and of
// a standby.
func (d *Deduper) explained(err error) error {
	switch wire.SQLState(err) {
	case wire.CodeUndefinedTable:
		return &Error{Answer: ErrSchema, Err: errors.New(examiner.Missing(d.table().Name) + "; `dedup migrate up` makes it")}
	case wire.CodeReadOnly:
		if !wire.IsReadOnlyTx(err) {
			return fmt.Errorf("%w (the server is a standby, whose records may be out of date)", cleaned(err))
		}
	case wire.CodeInsufficientPrivilege:
		return fmt.Errorf("%w; GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO the role (migrations.Check and `dedup migrate check` say what is missing)", cleaned(err), d.table().Name)
	}
	return cleaned(err)
}

// cleaned returns err, or the server's error in it without the row's values. It
// is for errors of the library's own statements.
func cleaned(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && redacts(server) {
		return redacted(server)
	}
	return err
}

// onConn does something on a connection of the pool, and on another one where what was
// prepared on that has been discarded. An error says why the context has ended, where it
// has.
func (d *Deduper) onConn(ctx context.Context, do func(*wire.Conn) error) error {
	once := func() error {
		conn, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer d.release(ctx, conn)
		if d.opts.Order == ClaimFirst { // a claim waits inside the server
			err = d.findEngine(ctx, conn.Conn())
		}
		if err == nil {
			err = do(wire.On(conn.Conn()))
		}
		wire.DropUnusable(ctx, conn.Conn(), err)
		return err
	}
	for renewed := int32(0); ; renewed++ {
		err := once()
		switch {
		case wire.SQLState(err) == wire.CodePreparedMissing && renewed < d.pool.Stat().MaxConns():
		case err != nil && ctx.Err() != nil:
			return withContext(ctx, err)
		default:
			return err
		}
	}
}

// lookFunc is one of the table's ways to look outside a transaction.
type lookFunc func(*table.Table, context.Context, *wire.Conn, *table.Entry, *table.Seen) error

// look takes a connection for one look and gives it back. An error says why the context has
// ended, where it has.
func (d *Deduper) look(ctx context.Context, e *table.Entry, seen *table.Seen, look lookFunc) error {
	return d.onConn(ctx, func(on *wire.Conn) error { return look(d.table(), ctx, on, e, seen) })
}

// acquire takes a connection whose session can be relied on. Those that somebody
// has made unusable for everybody are closed, and the pool makes new ones.
func (d *Deduper) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for unusable := int32(0); ; unusable++ {
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		err = wire.CheckSession(conn.Conn().PgConn())
		if err == nil {
			return conn, nil
		}
		_ = conn.Conn().Close(ctx)
		conn.Release()
		if unusable > d.pool.Stat().MaxConns() { // new ones are no better
			return nil, err
		}
	}
}

// release rolls back whatever is open on conn and gives it to the pool, which
// closes it when it is not clean.
func (d *Deduper) release(ctx context.Context, conn *pgxpool.Conn) {
	wire.Rollback(ctx, conn.Conn())
	conn.Release()
}
