package dedup

import (
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Options configure a [Deduper]. A nil *Options and every zero field mean the documented default.
// New copies and checks them once.
type Options struct {
	// Schema contains the tool_dedup table. Default: "public". Every statement names the schema, so
	// that neither search_path nor a temporary table of the same name can redirect a record.
	Schema string

	// Isolation is the isolation level of the library's own transactions: those of Do, DoStatement,
	// DoBatch and BeginFunc. Default: pgx.ReadCommitted, whatever the database's default is.
	// pgx.RepeatableRead and pgx.Serializable give the same answers, but a twin that arrives during
	// the race more often runs an effect that is then rolled back.
	Isolation pgx.TxIsoLevel

	// Retention is the default of the fields that Call.Retention leaves zero. Its own default is 24
	// hours, then tombstones for 30 days.
	Retention Retention

	// MaxWait bounds the total time that a call waits for twins. Zero, the default, waits until the
	// call's context ends. Negative means 5 ms.
	//
	// It also bounds each wait for a lock on the table, such as that of CREATE INDEX, when a call
	// writes its record and when a connection first prepares the statement for it. If the pool's
	// connections have a tracer of pgx, pgx prepares, and that wait has no such bound.
	MaxWait time.Duration

	// Retry bounds the attempts of Do, DoStatement, DoBatch, BeginFunc and Erase after transient
	// faults.
	Retry RetryPolicy

	// MaxResultBytes limits the JSON text of a result, in bytes. Default: 1 MiB, at least 8 KiB, at
	// most 256 MiB. A longer result is an [ErrInvalid] before COMMIT, and the effect is rolled
	// back.
	MaxResultBytes int

	// CommitTimeout bounds the last round trip. The trip continues after the caller's context ends,
	// because a cancelled COMMIT has an unknown outcome. Default: 10 s, at least 1 ms.
	CommitTimeout time.Duration

	// IdleTimeout is set as idle_in_transaction_session_timeout in the library's own transactions,
	// so that the server frees the identity of a vanished client. It also bounds the time for which
	// an effect may send nothing to the server. On Linux servers since PostgreSQL 14,
	// client_connection_check_interval is set to the same if it is off: the server then detects
	// during a statement that its client closed the connection. Default: 1 minute, at least 1 ms,
	// at most 24 days.
	IdleTimeout time.Duration

	// Tracer is called on events; see [NewSlogTracer] and [MultiTracer]. Default: none.
	Tracer Tracer
}

// RetryPolicy bounds the attempts of one call. Each attempt is a fresh transaction. The pause
// before the second is random between zero and BaseDelay; the bound doubles for each further
// attempt, up to MaxDelay (full jitter). Waiting for a twin is not an attempt.
type RetryPolicy struct {
	// MaxAttempts includes the first attempt. Default: 12, whose pauses add up to 2.6 s on average
	// and 5.3 s at most: a longer failover ends the call. 1 means no retry.
	MaxAttempts int
	// BaseDelay is the bound of the first pause. Default: 10 ms.
	BaseDelay time.Duration
	// MaxDelay is the bound of any pause. Default: 1 s, at most 1 h.
	MaxDelay time.Duration
}

// Retention is the time for which a call is remembered, in two stages that begin when its record is
// written, by the database's clock. During Result the call is replayed. Then its result may be
// dropped, and during Tombstone the identity answers [ErrExpired] and never runs again. After that
// the identity may be used anew.
//
// A call whose COMMIT was not answered looks for its record. A missing record proves that nothing
// was committed, but only while the record could not be forgotten yet. So a call that is still
// unsettled after half of Result and Tombstone together returns [ErrOutcomeUnknown] and does not
// run again. Choose their sum longer than twice the longest outage.
//
// If Result is negative, the answer is not kept: the record is a tombstone from the beginning. Use
// that for tools that mint secrets. The call that runs the effect gets its answer, even if the
// reply to its COMMIT was lost. Every other call, such as a retry or a twin that waited, gets
// [ErrExpired]. A refusal is an answer too. The answer is not sent to the server, and no event
// contains it, except for the error of a refusal in CallEndData.Err.
//
// Choose Result as long as the call may be retried. Payment and agent platforms publish these
// times: an interactive turn is retried within the hour, a task within the day, a batch within the
// week, money within the month.
type Retention struct {
	// Result is the time for which the result is replayed. Zero means the Result of
	// Options.Retention, whose default is 24 hours. At least 1 ms, at most 100 years. Negative
	// means that the answer is not kept.
	Result time.Duration
	// Tombstone is the time after Result for which the identity is refused. Zero means the
	// Tombstone of Options.Retention, whose default is 30 days. Negative means none. At most 100
	// years. If the answer is not kept, at least 1 ms.
	Tombstone time.Duration
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
	setDefault(&opts.Isolation, pgx.ReadCommitted)
	switch opts.Isolation {
	case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
	default:
		return refuse("Isolation", "unknown level %q; use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", opts.Isolation)
	}
	retention, problem := opts.Retention.resolve(Retention{Result: defaultResult, Tombstone: defaultTombstone})
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
	if opts.IdleTimeout < time.Millisecond || opts.IdleTimeout > maxIdleTimeout {
		return refuse("IdleTimeout", "must be between 1ms and %s", maxIdleTimeout)
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

const (
	defaultResult    = 24 * time.Hour
	defaultTombstone = 30 * 24 * time.Hour
	minRetention     = time.Millisecond
	maxRetention     = 100 * 365 * 24 * time.Hour
)

// resolve sets zero fields from fallback and describes a field that is out of range.
func (r Retention) resolve(fallback Retention) (Retention, string) {
	setDefault(&r.Result, fallback.Result)
	setDefault(&r.Tombstone, fallback.Tombstone)
	switch {
	case r.Result < 0 && r.Tombstone < minRetention:
		return r, "Tombstone must be at least 1ms if Result is negative: nothing else remembers a call whose answer is not kept"
	case r.Result >= 0 && r.Result < minRetention:
		return r, "Result must be at least 1ms, or negative to keep no answer"
	case r.Result > maxRetention || r.Tombstone > maxRetention:
		return r, "Result and Tombstone must be at most 100 years"
	}
	return r, ""
}

// ages returns the age at which a result expires and the age at which its identity is forgotten, in
// the resolution of Postgres. keep is 0 if the answer is not kept.
func (r Retention) ages() (keep, forget time.Duration) {
	keep = max(r.Result, 0)
	return keep.Truncate(time.Microsecond), (keep + max(r.Tombstone, 0)).Truncate(time.Microsecond)
}

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
