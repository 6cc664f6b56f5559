package dedup

import (
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

// ErrorPolicy says what becomes of an effect's errors.
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

func checkIdentity(scope, tool, key string) (table.Identity, error) {
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := validateName("Scope", scope); err != nil {
		return id, err
	}
	if err := validateName("Tool", tool); err != nil {
		return id, err
	}
	return id, validateName("Key", key)
}

// validateName checks a scope, a tool or a key.
func validateName(field, name string) error {
	if problem := table.NameProblem(field, name); problem != "" {
		return invalid(field, "%s", problem)
	}
	return nil
}

// Fingerprint names the arguments of a call by their value: two calls have the
// same one exactly if their arguments are equal as JSON. Its String method returns 64
// hex characters.
type Fingerprint = canon.Fingerprint

const (
	// MaxArgsSize is the most bytes that the JSON text of a call's arguments
	// may have: 16 MiB. More belongs in a store of its own, with its hash among
	// the arguments.
	MaxArgsSize = canon.MaxSize
	// MaxArgsDepth is how deep arrays and objects may nest in arguments: 1,000.
	// Beyond it they are refused with an *[InvalidError].
	MaxArgsDepth = canon.MaxDepth
)

// FingerprintOf returns the SHA-256 of a version prefix and the canonical JSON
// text of args. White space, the order of members, the spelling of numbers and
// of escapes do not count; every digit of a number does. nil is null.
//
// A [json.RawMessage] is taken as JSON text. Any other value goes through
// [json.Marshal] first. A plain []byte is refused, because Marshal would make
// it a base64 string, in which the order of members and the white space count
// again: convert it to json.RawMessage, or to string if it is no JSON.
//
// Marshal leaves some values out without an error, and calls that differ in them
// would count as one. So arguments are refused that hold a struct of which
// nothing is encoded ([errors.New]'s, atomics), an unexported field that may hold
// data, two fields of one name, or a struct that has its MarshalJSON from an
// embedded field and other fields beside it. Fields tagged `json:"-"` do not
// count, nor do locks, functions and channels, and what a MarshalJSON or
// MarshalText leaves out is its author's choice. Methods with pointer receivers
// ([math/big.Int]) are used in arguments that are passed by value too, if they
// would lose something otherwise; in maps and interfaces they cannot be.
//
// An *[InvalidError] with Field "Args" says why arguments have no
// fingerprint: they lose a part, cannot be encoded, are larger than [MaxArgsSize], nest
// deeper than [MaxArgsDepth], name a member twice, hold a string that is not
// valid UTF-8 (in a Go value too, where Marshal would silently replace the bad
// bytes and so merge different calls), or a number with an exponent beyond
// ±1,000,000,000.
func FingerprintOf(args any) (Fingerprint, error) {
	fp, err := canon.FingerprintOf(args)
	return fp, invalidArgs(err)
}

// invalidArgs is an error of the arguments as the caller gets it.
func invalidArgs(err error) error {
	if refused, ok := err.(*canon.Error); ok {
		return &InvalidError{What: "call", Field: "Args", Reason: refused.Reason, Err: refused.Err}
	}
	return err
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
	policy := call.Errors
	setDefault(&policy, d.opts.Errors)
	if !policy.known() {
		return invalid("Errors", "has an unknown policy; use ErrorsDefault, ErrorsRollBack or ErrorsStored")
	}
	c.d, c.began = d, time.Now()
	c.Identity, c.Lock = id, id.LockKey(d.opts.Schema)
	c.Keep, c.Forget = retention.keep(), retention.forget()
	c.lookFirst, c.storeErrors = call.LookFirst, policy == ErrorsStored
	c.maxWait = call.MaxWait
	setDefault(&c.maxWait, d.opts.MaxWait)
	c.maxWait = min(c.maxWait, longestWait)
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
