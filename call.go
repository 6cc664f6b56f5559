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
	// where Options.MaxWait sets one, take a duration that is longer than any.
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

// call is one Call on its way: what was asked, and how it went so far. One goroutine at
// a time has it.
type call struct {
	d        *Deduper
	function string // that was called
	table.Entry
	storeErrors bool
	lookFirst   bool
	began       time.Time

	// effect is what an attempt runs between look-up and record, or stmt is a statement
	// in its place. out is what comes of it is recorded as.
	effect effectFunc
	stmt   *boundStatement
	out    table.Outcome

	waiter waiter

	// rec is the identity's record, once the call has come to one; executed is true when
	// this call wrote it, recovered when it was found after a COMMIT of this call whose
	// answer was lost.
	rec                 table.Record
	executed, recovered bool
	// known is the record where it was read before the call was made, see [table.Known].
	known *table.Record
	// cause is the effect's error behind a refusal that this call recorded.
	cause error
	// err is why a call of a batch came to no record.
	err      error
	attempts int

	// span is what tracers see of the call, where it is one of several.
	span *span
	// own is the group that the call makes alone, where it is one of several; first an
	// earlier one of them with the same identity.
	own   *solo
	first *call

	// written is the record that an attempt has sent, and that counts once it is
	// committed.
	written table.Record
	// conflicts counts unique violations without a record.
	conflicts int
	// combinedFailed is true when effect and record were sent as one statement, which did
	// not commit. What its error means is found out by an attempt that sends them
	// separately.
	combinedFailed bool
	// reprepared is true when its statement failed once already when it may have been
	// prepared for types that have changed.
	reprepared bool
	// endedTx is true when the effect ended its transaction and then panicked.
	endedTx bool
}

// effectFunc is what an attempt runs between look-up and record: it returns the text to
// record, or an error.
type effectFunc func(ctx context.Context, tx pgx.Tx) (text string, err error)

// settled reports whether the call has come to an end.
func (c *call) settled() bool { return c.err != nil || c.rec.Outcome != "" }

// owner names the call to the effects inside it.
func (c *call) owner() guard.Owner {
	return guard.Owner{Pool: c.d.pool, Schema: c.d.opts.Schema, Scope: c.Scope, Tool: c.Tool, Key: c.Key}
}

// check makes of a Call the call c, or says what is wrong with it. Nothing is sent to the
// database before this has passed.
func (d *Deduper) check(ctx context.Context, function string, asked Call, noEffect bool, c *call) error {
	if err := d.usable(ctx); err != nil {
		return err
	}
	if noEffect {
		return invalid("effect", "must not be nil")
	}
	id, err := checkIdentity(asked.Scope, asked.Tool, asked.Key)
	if err != nil {
		return err
	}
	retention, problem := asked.Retention.resolve(d.opts.Retention)
	if problem != "" {
		return invalid("Retention", "cannot be used: %s", problem)
	}
	c.d, c.function, c.began, c.out = d, function, time.Now(), table.Done
	c.Identity, c.Lock = id, id.LockKey(d.opts.Schema)
	c.Keep, c.Forget = retention.keep(), retention.forget()
	c.lookFirst = asked.LookFirst
	c.waiter.max = asked.MaxWait
	setDefault(&c.waiter.max, d.opts.MaxWait)
	policy := asked.Errors
	setDefault(&policy, d.opts.Errors)
	if !policy.known() {
		return invalid("Errors", "has an unknown policy; use ErrorsDefault, ErrorsRollBack or ErrorsStored")
	}
	c.storeErrors = policy == ErrorsStored
	if known, ok := asked.Args.(table.Known); ok {
		c.Fingerprint, c.ArgDigests, c.known = known.Fingerprint, known.ArgDigests, known.Record
		return nil
	}
	c.Fingerprint, c.ArgDigests, err = canon.Digest(id.Scope, id.Tool, id.Key, asked.Args)
	return invalidArgs(err)
}

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

// judge says what a record of the call's identity answers: nil when its result is
// the answer, else the error that is. Misuse comes before age, so that a reused
// key is answered as such as long as the identity is remembered.
func (c *call) judge(r *table.Record) error {
	switch {
	case r.IsBroken():
		return c.answer(Error{Answer: ErrBroken, FirstAt: r.CreatedAt})
	case r.Fingerprint != c.Fingerprint:
		changed, complete := canon.ChangedArgs(r.ArgDigests, c.ArgDigests)
		return c.answer(Error{Answer: ErrKeyReused, FirstAt: r.CreatedAt, Changed: changed, Complete: complete})
	case r.Expired():
		return c.answer(Error{Answer: ErrExpired, FirstAt: r.CreatedAt, ExpiredAt: r.ExpiresAt, ForgetAt: r.ForgetAt})
	case r.Outcome == table.Refused:
		return decodeRefusal(r.Result, r.CreatedAt)
	default:
		return nil
	}
}

// answer puts the call's names into an error.
func (c *call) answer(err Error) *Error {
	err.Scope, err.Tool, err.KeyHash = c.Scope, c.Tool, KeyHash(c.Key)
	return &err
}

// refusal is the error of a call that recorded one.
func (c *call) refusal() error {
	if c.rec.Outcome != table.Refused {
		return nil
	}
	return firstRefusal(c.rec.Result, c.rec.CreatedAt, c.cause)
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
