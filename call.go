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

// Call says which call of which tool this is. Scope, Tool and Key make up its
// identity: each is 1 to 255 bytes of valid UTF-8 without control characters,
// compared byte by byte.
type Call struct {
	// Scope is the tenant, client or account on whose behalf the tool runs,
	// taken from the authenticated caller and never from the tool's arguments.
	// One scope never sees another's results.
	Scope string
	// Tool is the tool's stable name, chosen by its author. Renaming it makes
	// every earlier call unknown.
	Tool string
	// Key names the intent. Made once, where the intent is formed, and the same
	// on every retry; see KeyFromToolCall, KeyFromIntent and NewKey.
	Key string
	// Args are the arguments, as a value that encoding/json can encode without
	// loss (see [FingerprintOf]) or as a json.RawMessage. Only their fingerprint is kept: the same identity with
	// other arguments is refused. Nil means that there are none.
	Args any

	// Retention overrides Options.Retention where it is not zero.
	Retention Retention
	// MaxWait overrides Options.MaxWait where it is not zero; negative means
	// that a twin in flight is answered with ErrInFlight at once. For no limit
	// where Options.MaxWait sets one, take [math.MaxInt64].
	MaxWait time.Duration
	// Errors overrides Options.Errors.
	Errors ErrorPolicy

	// LookFirst looks the record up before anything else, in one round trip and
	// outside a transaction. Set it where a replay is likely, on a second try for
	// one: a replay costs one round trip then, and a first call one more.
	LookFirst bool
}

// asked is a Call that was checked: what was asked, and nothing of how it goes.
type asked struct {
	d        *Deduper
	function string // that was called
	table.Entry
	storeErrors, lookFirst bool
	// maxWait is at most longestWait; 0: until the context ends; negative: not at all.
	maxWait time.Duration
	began   time.Time
	// known is a record that package external has read already; nil where it has none.
	known *table.Record

	// effect is what is to be run, or stmt where that is one statement.
	effect effectFunc
	stmt   *boundStatement
}

// effectFunc runs the effect and returns the text to record.
type effectFunc func(ctx context.Context, tx pgx.Tx) (text string, err error)

// longestWait is longer than any wait, and so short that a little can be added to it.
const longestWait = 100 * 365 * 24 * time.Hour

// admit is check for functions that must not be called inside an effect.
func (c *asked) admit(ctx context.Context, d *Deduper, call Call) error {
	if err := c.check(ctx, d, call); err != nil {
		return err
	}
	if guard.Inside(ctx) {
		return errNested
	}
	return nil
}

// check makes c of what was asked, or says what is wrong with that. Nothing is sent to the
// database before this has passed.
func (c *asked) check(ctx context.Context, d *Deduper, call Call) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	id, err := checkIdentity(call.Scope, call.Tool, call.Key)
	if err != nil {
		return err
	}
	retention, problem := call.Retention.resolve(d.opts.Retention)
	if problem != "" {
		return invalid("Retention", "cannot be used: %s", problem)
	}
	policy := cmp.Or(call.Errors, d.opts.Errors)
	if !policy.known() {
		return invalid("Errors", "has an unknown policy; use ErrorsDefault, ErrorsRollBack or ErrorsStored")
	}
	c.d, c.began = d, time.Now()
	c.Identity, c.Lock = id, id.LockKey(d.opts.Schema)
	c.Keep, c.Forget = retention.keep(), retention.forget()
	c.lookFirst, c.storeErrors = call.LookFirst, policy == ErrorsStored
	c.maxWait = min(cmp.Or(call.MaxWait, d.opts.MaxWait), longestWait)
	if known, ok := call.Args.(table.Known); ok {
		c.Fingerprint, c.ArgDigests, c.known = known.Fingerprint, known.ArgDigests, known.Record
		return nil
	}
	c.Fingerprint, c.ArgDigests, err = canon.Digest(id.Scope, id.Tool, id.Key, call.Args)
	return invalidArgs(err)
}

var (
	errNested    = &InvalidError{What: "call", Field: "ctx", Reason: "is an effect's; inside an effect use DoTx with its transaction"}
	errReentrant = &InvalidError{What: "call", Field: "ctx", Reason: "is that of this very call's effect; a call cannot make itself"}
)

// owner names the call to the effects inside it.
func (c *asked) owner() guard.Owner {
	return guard.Owner{Pool: c.d.pool, Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}

// judge says what a record of the call's identity answers: nil when its result is
// the answer, else the error that is. Misuse comes before age, so that a reused
// key is answered as such as long as the identity is remembered.
func (c *asked) judge(r *table.Record) error {
	switch {
	case r.IsBroken():
		return c.named(Error{Answer: ErrBroken, FirstAt: r.CreatedAt})
	case r.Fingerprint != c.Fingerprint:
		changed, complete := canon.ChangedArgs(r.ArgDigests, c.ArgDigests)
		return c.named(Error{Answer: ErrKeyReused, FirstAt: r.CreatedAt, Changed: changed, Complete: complete})
	case r.Expired():
		return c.named(Error{Answer: ErrExpired, FirstAt: r.CreatedAt, ExpiredAt: r.ExpiresAt, ForgetAt: r.ForgetAt})
	case r.Outcome == table.Refused:
		return decodeRefusal(r.Result, r.CreatedAt)
	default:
		return nil
	}
}

// named puts the call's names into an error.
func (c *asked) named(err Error) *Error {
	err.Scope, err.Tool, err.KeyHash = c.Scope, c.Tool, KeyHash(c.Key)
	return &err
}
