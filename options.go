package dedup

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Options configure a [Deduper]. A nil *Options and every zero field mean the
// documented default. New copies and checks them once.
type Options struct {
	// Schema holds the tool_dedup table. Default "public". Every statement
	// names it, so that neither search_path nor a temporary table of the same
	// name can lead a record astray.
	Schema string

	// Order says how an attempt keeps twins out before it runs the effect. Default
	// LockFirst.
	Order Order

	// Isolation is the level of the transactions that Do opens. Default
	// pgx.ReadCommitted, whatever the database's default is. At
	// pgx.RepeatableRead and pgx.Serializable the answers are the same, but a
	// twin that arrives during the race more often runs an effect that is rolled back.
	Isolation pgx.TxIsoLevel

	// Retention is used by calls that name none. Default TaskRetention.
	Retention Retention

	// MaxWait bounds how long a call waits for its twins, all in all. Zero, the
	// default, waits until the call's context ends; negative means not at all:
	// ErrInFlight is answered at once.
	MaxWait time.Duration

	// Retry bounds the attempts that Do makes when it meets transient faults.
	Retry RetryPolicy

	// MaxResultBytes limits the JSON text of a result. Default 1 MiB, at least
	// 8 KiB, at most 256 MiB. A longer one is an [ErrInvalid] before COMMIT and the effect is rolled back.
	MaxResultBytes int

	// Errors says which of an effect's errors are stored where a call does not choose.
	// Default ErrorsRollBack: errors roll back, nothing is stored and the next try runs.
	Errors ErrorPolicy

	// CommitTimeout bounds the last round trip, which runs on after the caller's
	// context has ended, because a cancelled COMMIT is a guess. It is also how long
	// after it was sent a statement of DoStatement or DoBatch is accepted by the server.
	// Default 10 s, at least 1 ms.
	CommitTimeout time.Duration

	// IdleTimeout is set as idle_in_transaction_session_timeout for the
	// library's own transactions, so that the server frees an identity whose
	// client has vanished. It also bounds how long an effect may go without
	// talking to the server. Where client_connection_check_interval is off, it is
	// set to the same, on Linux servers since PostgreSQL 14: they find out while a
	// statement runs that its client has closed the connection. Default 1 minute,
	// at least 1 ms, at most 24 days; negative leaves the session's own settings.
	IdleTimeout time.Duration

	// AsyncCommit leaves synchronous_commit alone. By default Do turns it on
	// for its own transaction where the role or database has it off, because a
	// server crash would lose calls that were answered (measured: 19 of 3,154).
	AsyncCommit bool

	// SeparateStatements makes DoStatement and DoBatch send effect and record as two
	// statements in a transaction of three round trips for each call, also where one
	// statement could be both. Citus, and servers whose version() does not say PostgreSQL,
	// are detected automatically; set it for a router that hides what is behind it.
	// Default false.
	SeparateStatements bool

	// Tracer is called when something happens. It implements one or more of the …Tracer
	// interfaces; see [NewSlogTracer] and [MultiTracer]. Default none.
	Tracer Tracer
}

// RetryPolicy bounds the attempts of one call. Each attempt is a fresh
// transaction; the pause before the second is drawn evenly from zero up to
// BaseDelay, and that bound doubles for each one after, up to MaxDelay (full
// jitter). Waiting for a twin
// is not an attempt.
type RetryPolicy struct {
	// MaxAttempts counts the first attempt too. Default 12, which rides out a
	// failover of 2.6 s on average and 5.3 s at most. 1 means no retry.
	MaxAttempts int
	// BaseDelay is the bound of the first pause. Default 10 ms.
	BaseDelay time.Duration
	// MaxDelay is the bound of any pause. Default 1 s, at most 1 h.
	MaxDelay time.Duration
}

// Order says how an attempt keeps twins out before it runs the effect. The primary key decides in both; what differs is the price.
// All processes that share a table should use the same: mixed, the answers stay
// right, but a twin may run an effect that is rolled back, and wait with a connection in hand.
type Order int

const (
	// LockFirst takes a transaction-level advisory lock, looks the record up,
	// runs the effect and inserts the record with the COMMIT. Each row is
	// written once.
	LockFirst Order = iota
	// ClaimFirst inserts the identity, runs the effect and completes the row
	// with the COMMIT. It is for engines and routers without advisory locks, and
	// for Citus where twins come in through several nodes, which do not see each
	// other's locks; each row is written twice.
	ClaimFirst
)

// String returns the order's name.
func (o Order) String() string {
	switch o {
	case LockFirst:
		return "lock first"
	case ClaimFirst:
		return "claim first"
	default:
		return fmt.Sprintf("Order(%d)", int(o))
	}
}

// resolve returns a copy of o with the defaults filled in, or an ErrInvalid.
func (o *Options) resolve() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	refuse := func(option, reason string, args ...any) (Options, error) {
		return Options{}, invalidOption(option, reason, args...)
	}

	setDefault(&opts.Schema, "public")
	// The server cuts longer names, and two that are cut can become one.
	if len(opts.Schema) > 63 || !utf8.ValidString(opts.Schema) || containsNUL(opts.Schema) {
		return refuse("Schema", "must be a valid name of at most 63 bytes")
	}
	if opts.Order != LockFirst && opts.Order != ClaimFirst {
		return refuse("Order", "unknown value %d; use LockFirst or ClaimFirst", int(opts.Order))
	}
	setDefault(&opts.Isolation, pgx.ReadCommitted)
	switch opts.Isolation {
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		return refuse("Isolation", "unknown level %q; use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", opts.Isolation)
	}
	if !opts.Errors.known() {
		return refuse("Errors", "unknown policy %d; use ErrorsRollBack or ErrorsStored", int(opts.Errors))
	}
	retention, problem := opts.Retention.resolve(TaskRetention())
	if problem != "" {
		return refuse("Retention", "%s", problem)
	}
	opts.Retention = retention

	setDefault(&opts.Retry.MaxAttempts, 12)
	setDefault(&opts.Retry.BaseDelay, 10*time.Millisecond)
	setDefault(&opts.Retry.MaxDelay, time.Second)
	switch {
	case opts.Retry.MaxAttempts < 1:
		return refuse("Retry.MaxAttempts", "must be at least 1")
	case opts.Retry.BaseDelay < 0 || opts.Retry.MaxDelay < opts.Retry.BaseDelay || opts.Retry.MaxDelay > maxDelay:
		return refuse("Retry.MaxDelay", "must be at least Retry.BaseDelay and at most %s, and both positive", maxDelay)
	}

	setDefault(&opts.MaxResultBytes, 1<<20)
	if opts.MaxResultBytes < minMaxResultBytes || opts.MaxResultBytes > maxMaxResultBytes {
		return refuse("MaxResultBytes", "must be between %d and %d", minMaxResultBytes, maxMaxResultBytes)
	}
	setDefault(&opts.CommitTimeout, 10*time.Second)
	if opts.CommitTimeout < time.Millisecond {
		return refuse("CommitTimeout", "must be at least 1ms")
	}
	setDefault(&opts.IdleTimeout, time.Minute)
	if opts.IdleTimeout > 0 && (opts.IdleTimeout < time.Millisecond || opts.IdleTimeout > maxIdleTimeout) {
		return refuse("IdleTimeout", "must be between 1ms and %s, or negative", maxIdleTimeout)
	}
	return opts, nil
}

const (
	// A refusal must always fit, see encodeRefusal.
	minMaxResultBytes = 8 << 10
	// A Postgres field holds 1 GB; a message that carries it must stay below.
	maxMaxResultBytes = 256 << 20
	// No caller waits that long; and doubling it stays far from overflow.
	maxDelay = time.Hour
	// The setting is an int32 of milliseconds.
	maxIdleTimeout = 24 * 24 * time.Hour
)

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func containsNUL(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

// ErrorPolicy says which of an effect's errors are stored.
type ErrorPolicy int

const (
	// ErrorsDefault does what Options.Errors says, and there it is ErrorsRollBack.
	ErrorsDefault ErrorPolicy = iota
	// ErrorsRollBack stores only errors that are wrapped by [Final].
	ErrorsRollBack
	// ErrorsStored stores every error as if it were wrapped by [Final], but for
	// transient database errors, context errors and what the library itself objects to:
	// the effect's use of its transaction, an unusable result.
	ErrorsStored
)

func (p ErrorPolicy) known() bool { return p >= ErrorsDefault && p <= ErrorsStored }
