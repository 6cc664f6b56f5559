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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Deduper runs write tools once. It is safe for concurrent use and starts no goroutines. Make one
// per pool and keep it.
type Deduper struct {
	pool    *pgxpool.Pool
	opts    Options
	flights flights
	stats   stats
	// tables holds the statements for the engine of the pool's server. Before the examination it
	// holds statements that every engine accepts.
	tables atomic.Pointer[table.Table]
	// examined is true once an examination found the pool's table sound. database names the pool's
	// database. tablesByDatabase maps the name of every other database in which a caller's
	// transaction was to its *table.Table.
	examined         atomic.Bool
	database         string
	tablesByDatabase sync.Map
}

// New returns a Deduper that keeps its records in the tool_dedup table of pool's database. It sends
// nothing: call migrations.Check at start-up to learn whether the table exists and is sound. The
// Deduper's first call examines whether the table can decide races, which takes one extra round
// trip. A nil opts means the defaults. The error is an [ErrInvalid].
func New(pool *pgxpool.Pool, opts *Options) (*Deduper, error) {
	if pool == nil {
		return nil, &InvalidError{What: "option", Field: "pool", Missing: true, Reason: "must not be nil"}
	}
	resolved, err := opts.resolve()
	resolved.Tracer = guardTracer(resolved.Tracer)
	if err != nil {
		return nil, err
	}
	d := &Deduper{
		pool: pool, database: wire.DatabaseOf(pool.Config().ConnConfig), opts: resolved,
		stats: stats{since: time.Now()},
	}
	d.tables.Store(d.tableOn(examiner.Unknown))
	return d, nil
}

// Pool returns the pool that d was made with.
func (d *Deduper) Pool() *pgxpool.Pool { return d.pool }

// Options returns the options in use, with the defaults filled in.
func (d *Deduper) Options() Options { return d.opts }

// Refusal returns the refusal with which Do answers if its effect returns err, which [Final] wraps.
// It is not recorded, so its CreatedAt is zero. Refusal returns nil for any other error, if
// [NotFinal] marks err or a part of it, and if err [IsTransient]. If the details cannot be encoded
// it returns an [ErrInvalid]. Use it to run an effect without Do and still return the same
// refusals.
func (d *Deduper) Refusal(err error) error {
	var final *finalError
	var notFinal *notFinalError
	if errors.As(err, &notFinal) || !errors.As(err, &final) || IsTransient(err) {
		return nil
	}
	text, err := encodeRefusal(final.err, d.opts.MaxResultBytes)
	if err != nil {
		return err
	}
	refused, err := decodeRefusal(text, time.Time{})
	if err != nil {
		return err
	}
	refused.Replayed, refused.err = false, hideCallErrors(final.err)
	return refused
}

// Stats returns the counts of d. Counting costs a call no allocation and no round trip.
func (d *Deduper) Stats() Stats { return d.stats.snapshot() }

// usable returns an ErrInvalid if ctx or d cannot be used.
func (d *Deduper) usable(ctx context.Context) error {
	switch {
	case ctx == nil:
		return missing("ctx", "must not be nil")
	case d == nil || d.pool == nil:
		return invalid("d", "must come from New")
	}
	return nil
}

// outside returns an ErrInvalid if d cannot be used, or if ctx belongs to an effect: a call there
// would need a second connection, and wait forever if effects hold all of the pool's.
func (d *Deduper) outside(ctx context.Context) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errNested
	}
	return nil
}

// table returns the statements for the pool's database.
func (d *Deduper) table() *table.Table { return d.tables.Load() }

// tableOn returns the statements for an engine.
func (d *Deduper) tableOn(engine examiner.Engine) *table.Table {
	return table.New(table.Options{
		Schema: d.opts.Schema, Engine: engine, Isolation: d.opts.Isolation, IdleTimeout: d.opts.IdleTimeout,
	})
}

// checkTable examines the table of the pool's database once in the life of a Deduper, before the
// first effect, in one round trip. If the table cannot decide races it returns an ErrSchema. It
// does not keep that error, so that a repaired table is found.
func (d *Deduper) checkTable(ctx context.Context, conn *pgx.Conn) error {
	if d.examined.Load() {
		return nil
	}
	return d.examinePool(ctx, conn)
}

// findEngine determines the engine of the pool's server, if it is unknown. It ignores problems of
// the table.
func (d *Deduper) findEngine(ctx context.Context, conn *pgx.Conn) error {
	if d.table().Engine() != examiner.Unknown {
		return nil
	}
	err := d.examinePool(ctx, conn)
	if errors.Is(err, ErrSchema) {
		return nil
	}
	return err
}

// rides reports whether a statement may ride with the look-up on the pool's server.
func (d *Deduper) rides(ctx context.Context) bool {
	if d.table().Engine() == examiner.Unknown {
		_ = d.onConn(ctx, func(*wire.Conn) error { return nil }) // an error here occurs again in the attempt
	}
	return d.table().Rides()
}

// examinePool examines the table of the pool's database, and keeps its engine and whether it is
// sound.
func (d *Deduper) examinePool(ctx context.Context, conn *pgx.Conn) error {
	found, err := d.examine(ctx, conn)
	if found != nil {
		d.tables.Store(found)
		d.examined.Store(err == nil)
	}
	return err
}

// checkTableOf is checkTable for the connection of a caller's transaction. If that is in another
// database than the pool's connections, checkTableOf examines the other database once.
func (d *Deduper) checkTableOf(ctx context.Context, on *wire.Conn) (*table.Table, error) {
	database, conn := on.Database(), on.Conn()
	if database == d.database {
		err := d.checkTable(ctx, conn)
		return d.table(), err
	}
	if known, ok := d.tablesByDatabase.Load(database); ok {
		return known.(*table.Table), nil
	}
	found, err := d.examine(ctx, conn)
	if err == nil {
		d.tablesByDatabase.Store(database, found)
	}
	return found, err
}

// examine returns the statements for the table's engine. If the table cannot decide races it
// returns an ErrSchema with them. With any other error it returns nil.
func (d *Deduper) examine(ctx context.Context, conn *pgx.Conn) (found *table.Table, err error) {
	x, err := examiner.Examine(ctx, conn, d.opts.Schema)
	if err != nil {
		return nil, err
	}
	if x.Problems != nil {
		err = &Error{Kind: ErrSchema, Err: fmt.Errorf("%s; migrations.Check and `dedup migrate check` say what to do", strings.Join(x.Problems, "; "))}
	}
	return d.tableOn(x.Engine), err
}

// reexamine makes the next call examine the table again.
func (d *Deduper) reexamine() {
	d.examined.Store(false)
	d.tablesByDatabase.Clear()
}

// lookFunc is a method of the table that looks an identity up on a connection outside any
// transaction: LookUp, LookForTwin, FindTwin or TryClaim.
type lookFunc func(*table.Table, context.Context, *wire.Conn, *table.Entry, *table.Seen) error

// look takes a connection for one look-up and releases it. If the context ended, the error includes
// its cause.
func (d *Deduper) look(ctx context.Context, e *table.Entry, seen *table.Seen, how lookFunc) error {
	return d.onConn(ctx, func(on *wire.Conn) error { return how(d.table(), ctx, on, e, seen) })
}

// onConn calls fn on a connection of the pool. If that connection's prepared statements are gone,
// it uses another one.
func (d *Deduper) onConn(ctx context.Context, fn func(*wire.Conn) error) error {
	once := func() error {
		conn, err := d.acquire(ctx)
		if err != nil {
			return err
		}
		defer d.release(ctx, conn)
		if err = d.findEngine(ctx, conn.Conn()); err == nil {
			err = fn(wire.On(conn.Conn()))
		}
		wire.DropUnusable(ctx, conn.Conn(), err)
		return err
	}
	err := once()
	for tries := int32(0); wire.SQLState(err) == wire.CodePreparedMissing && tries < d.pool.Stat().MaxConns(); tries++ {
		err = once()
	}
	if err != nil && ctx.Err() != nil {
		return withContext(ctx, err)
	}
	return err
}

// acquire takes a connection with a usable session. It closes connections whose client_encoding was
// changed; the pool makes new ones. If ctx ends first, the error contains how many connections are
// in use.
func (d *Deduper) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for unusable := int32(0); ; unusable++ {
		conn, err := wire.Acquire(ctx, d.pool)
		if err != nil {
			return nil, err
		}
		err = wire.CheckSession(conn.Conn().PgConn())
		if err == nil {
			return conn, nil
		}
		_ = conn.Conn().Close(ctx)
		conn.Release()
		if unusable > d.pool.Stat().MaxConns() { // new connections are not usable either
			return nil, err
		}
	}
}

// release rolls back an open transaction and releases conn to the pool. The pool closes a
// connection that is still in a transaction.
func (d *Deduper) release(ctx context.Context, conn *pgxpool.Conn) {
	wire.Rollback(ctx, conn.Conn())
	conn.Release()
}

// withHint redacts err and adds a hint for common set-up errors: a missing table, a missing
// privilege, a standby.
func (d *Deduper) withHint(err error) error {
	switch wire.SQLState(err) {
	case wire.CodeUndefinedTable:
		return &Error{Kind: ErrSchema, Err: errors.New(examiner.Missing(d.table().Name) + "; `dedup migrate up` makes it")}
	case wire.CodeReadOnly:
		if !wire.IsReadOnlyTx(err) {
			return fmt.Errorf("%w (the server is a standby, whose records may be out of date)", redact(err))
		}
	case wire.CodeInsufficientPrivilege:
		return fmt.Errorf("%w; GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO the role (migrations.Check and `dedup migrate check` say what is missing)", redact(err), d.table().Name)
	}
	return redact(err)
}
