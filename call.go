package dedup

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/guard"
	"github.com/tooldedup/dedup/internal/table"
)

// Call names a call of a tool. Scope, Tool and Key are its identity: each is 1 to 255 bytes of
// valid UTF-8 without control characters, and is compared byte by byte.
type Call struct {
	// Scope is the tenant, client or account on whose behalf the tool runs. Take it from the
	// authenticated caller, never from the tool's arguments. No scope sees another scope's results.
	Scope string
	// Tool is the tool's stable name. Renaming a tool makes it another tool, which does not find
	// earlier calls.
	Tool string
	// Key names the intent. Make it once, when the intent is formed, and send it with every retry;
	// see KeyFromToolCall, KeyFromIntent and NewKey.
	Key string
	// Args are the arguments: a json.RawMessage, or a value that is compared as encoding/json
	// writes it (see [FingerprintOf]). Fields that encoding/json leaves out are not compared. Times
	// are compared as written, zone included: give them in UTC. Only a fingerprint is stored. The
	// same identity with other arguments is an [ErrKeyReused]. Nil means no arguments.
	Args any

	// Retention overrides Options.Retention in each field that is not zero.
	Retention Retention
	// MaxWait overrides Options.MaxWait if it is not zero. Negative means 5 ms. [math.MaxInt64]
	// removes the limit that Options.MaxWait sets.
	MaxWait time.Duration
	// StoreErrors records every error of the effect as if [Final] wrapped it. Exceptions are errors
	// that [NotFinal] marks, transient database errors, context errors, and the library's own
	// errors about the effect's transaction or result. Default: false; an error rolls back, nothing
	// is stored, and the next call runs the effect.
	StoreErrors bool

	// LookFirst looks the record up before anything else, in one round trip outside a transaction.
	// A replay then takes one round trip, and a first call one more than without it. Set it if a
	// replay is likely, as on a retry. DoTx ignores it, because its look-up must see the caller's
	// transaction.
	LookFirst bool
}

// call is a Call that runs: the request, the current attempt and the response. One goroutine at a
// time uses it.
type call struct {
	request
	response
	span span // counts the call and reports it to the tracer

	current attempt    // or the last one, between two attempts
	seen    table.Seen // the result of its look-up
	// written is the record that the next attempt writes. If its Outcome is Refused or Broken, its
	// Result is the text to record, and no effect runs. Once committed, written is the call's
	// answer.
	written table.Record

	flight   flight // the part that followers read while the call leads
	waits    waits
	lost     lostCommit
	attempts int
	// exhausted is not nil if the attempts are used up.
	exhausted *exhaustion

	// separateTrip is true if the statement must not ride with the look-up. It could not be sent
	// there, it failed and may be stale, or a forgotten record must be deleted first.
	separateTrip bool
	// conflicts counts conflicts with a row that no look-up found.
	conflicts int
	// preparedMissing counts connections in a row whose prepared statements were gone. If that is
	// true of every connection of the pool, a pooler is the cause, and the call fails.
	preparedMissing int32
	// cancelled is true if an attempt was made again because a statement was cancelled when its
	// limit was over. A second time proves another cause.
	cancelled bool
	// discarded is true if the effect discarded its connection's prepared statements. The record's
	// statement is then sent as text.
	discarded bool
	// endedTx is true if the effect ended its transaction and then panicked.
	endedTx bool
}

// request is the checked input of a call.
type request struct {
	d *Deduper
	table.Entry
	storeErrors bool
	// lookFirst is also set by leadOrFollow, if a record is likely.
	lookFirst bool
	// maxWait is at most longestWait; 0 waits until the context ends.
	maxWait time.Duration

	// effect is the function to run. If the effect is one statement, stmt may ride in its place.
	effect effectFunc
	stmt   boundStatement
}

// effectFunc runs the effect and returns the text to record.
type effectFunc func(ctx context.Context, tx pgx.Tx) (text string, err error)

// startCall makes a call and begins its span, before any check. It returns the call's context.
func startCall(ctx context.Context, d *Deduper, function string, from *Call) (context.Context, *call) {
	c := &call{written: table.Record{Outcome: table.Done}}
	c.Identity = table.Identity{Scope: from.Scope, Tool: from.Tool, Key: from.Key}
	if ctx != nil && d != nil && d.pool != nil { // else check refuses them
		c.d = d
		ctx = c.span.start(ctx, d.opts.Tracer, &d.stats, CallData{Func: function, Scope: from.Scope, Tool: from.Tool, Key: from.Key})
	}
	return ctx, c
}

// check validates the caller's request and stores it in c, or returns an ErrInvalid. It sends
// nothing to the database.
func (c *call) check(ctx context.Context, d *Deduper, from *Call) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if err := checkIdentity(c.Identity); err != nil {
		return err
	}
	retention, problem := from.Retention.resolve(d.opts.Retention)
	if problem != "" {
		return invalid("Retention", "cannot be used: %s", problem)
	}
	c.Keep, c.Forget = retention.ages()
	c.Lock = c.LockKey(d.opts.Schema)
	c.lookFirst, c.storeErrors = from.LookFirst, from.StoreErrors
	if c.maxWait = min(cmp.Or(from.MaxWait, d.opts.MaxWait), longestWait); c.maxWait < 0 {
		c.maxWait = table.RowTimeout
	}
	if known := table.KnownOf(ctx, c.Identity); known != nil {
		c.Fingerprint, c.ArgDigests, c.rec = known.Fingerprint, known.ArgDigests, known.Record
	} else {
		var err error
		if c.Fingerprint, c.ArgDigests, err = canon.Digest(c.Scope, c.Tool, c.Key, from.Args); err != nil {
			return invalidArgs(err)
		}
	}
	if guard.Inside(ctx) && c.span.call.Func != "DoTx" {
		return errNested
	}
	return nil
}

// checkIdentity checks the three names of an identity.
func checkIdentity(id table.Identity) error {
	return cmp.Or(validateName("Scope", id.Scope), validateName("Tool", id.Tool), validateName("Key", id.Key))
}

// longestWait is longer than any wait, and so short that a little can be added to it.
const longestWait = 100 * 365 * 24 * time.Hour

var (
	errNoEffect  = &InvalidError{What: "call", Field: "effect", Missing: true, Reason: "must not be nil"}
	errNested    = &InvalidError{What: "call", Field: "ctx", Reason: "belongs to an effect; inside an effect call DoTx with its transaction"}
	errReentrant = &InvalidError{What: "call", Field: "ctx", Reason: "belongs to this call's own effect; an effect cannot make its own call"}
)

// useFound makes rec the call's answer. If rec is the call's own and does not keep its answer, the
// answer is the one in memory.
func (c *call) useFound(rec *table.Record) {
	c.rec, c.recovered = rec, c.lost.wrote(rec, c.span.began)
	if c.recovered && !rec.Kept() {
		c.ownRec = c.lost.written
	}
}

// orUnknown returns the error of a call that ends with err: ErrOutcomeUnknown if a COMMIT of the
// call is still lost, else err.
func (c *call) orUnknown(err error) error { return c.lost.orUnknown(err, c.attempts) }

// end ends the call's span and returns the error for the caller.
func (c *call) end(err error) error {
	if err != nil {
		err = annotate(c.Identity, err)
	}
	c.span.end(&c.response, c.attempts, c.waits.all, err)
	return err
}

// answer returns the answer of a call that ended with err or with a record. value is the result of
// its effect.
func answer[R any](c *call, value R, err error) (Result[R], error) {
	result := Result[R]{Waited: c.waits.all, Attempts: c.attempts, Recovered: c.recovered}
	if err != nil {
		return result, err
	}
	result.CreatedAt, result.ExpiresAt, result.Replayed = c.rec.CreatedAt, c.rec.KeptUntil(), !c.executed
	if c.executed && c.rec.Outcome == table.Done {
		result.Value = value
		return result, nil
	}
	if err = c.recordError(); err == nil {
		result.Value, err = decodeStored[R](c.text())
	}
	return result, err
}

// text returns the JSON text of the answer. The record of the call's own attempt has it even if the
// answer is not kept.
func (c *call) text() string {
	if c.ownRec != nil {
		return c.ownRec.Result
	}
	return c.rec.Result
}

// recordError returns the error with which the record answers the call, or nil if it answers with a
// result. A reused key is an ErrKeyReused until the identity is forgotten, even after the result
// expired. If the record is erased, it is an ErrExpired.
func (c *call) recordError() error {
	switch r := c.rec; {
	case r.IsBroken():
		return c.named(Error{Kind: ErrBroken, CreatedAt: r.CreatedAt})
	case !r.Accepts(c.Fingerprint):
		changed, complete := canon.ChangedArgs(r.ArgDigests, c.ArgDigests)
		return c.named(Error{Kind: ErrKeyReused, CreatedAt: r.CreatedAt, Changed: changed, Complete: complete})
	case r.Expired() && c.ownRec == nil:
		return c.named(Error{Kind: ErrExpired, CreatedAt: r.CreatedAt, ExpiredAt: r.KeptUntil(), ForgetAt: r.ForgetAt, Refused: r.Outcome == table.Refused})
	case r.Outcome == table.Refused:
		refused, err := decodeRefusal(c.text(), r.CreatedAt)
		if err != nil {
			return err
		}
		refused.Replayed, refused.Recovered = !c.executed, c.recovered
		if c.executed {
			refused.err = hideCallErrors(c.cause)
		}
		return refused
	default:
		return nil
	}
}

// named adds the call's scope, tool and key hash to an error.
func (c *request) named(err Error) *Error {
	err.Scope, err.Tool, err.KeyHash = c.Scope, c.Tool, KeyHash(c.Key)
	return &err
}
