package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// Forever is the KeyKept of a provider that never forgets: the id of what is made is
// chosen by the caller, as the names of objects in Kubernetes, S3 and git are.
const Forever time.Duration = math.MaxInt64

// Tool is a write tool whose effect is outside of the database. What the provider offers
// decides what is guaranteed; the package documentation has the table. In and Out are
// encoded as JSON. In is stored until the answer is certain: it must hold no secrets. A stored input
// is read strictly, by whatever release of the program: one that has a member which In lacks is parked
// after a few tries.
type Tool[In, Out any] struct {
	// Name is the tool's stable name, as in [dedup.Call].
	Name string

	// Perform makes one attempt. It sends a.Key where the provider takes a key, and
	// returns when nothing more of the attempt will be sent; it must not retry by itself.
	// ctx does not end with the caller's. It ends after Timeout, or when another process may take over.
	//
	// An error wrapped by [dedup.Final] is a refusal: it did not happen, never will, and is
	// recorded. [NotDone] means that this attempt had no effect, and [ErrExists] that the
	// provider knows the key. Any other error, a panic, and the end of ctx mean that the outcome
	// is not known: so does that the provider is still working.
	Perform func(ctx context.Context, a Attempt, in In) (Out, error)
	// Find returns every effect that the provider has for a.Key, or for a marker made of it that
	// Perform sends; none is no error. Two calls may have equal inputs: what is found by in alone may
	// be another call's effect, and would be recorded as this one's. It changes nothing. What the
	// provider has accepted and not ended is an effect, or else an error: an error is no answer, and
	// another look follows. Default none.
	Find func(ctx context.Context, a Attempt, in In) ([]Out, error)

	// Begin writes in the transaction that claims the operation, before anything is sent;
	// an error leaves nothing behind and is the answer of Do. Finish writes in the
	// transaction that records a success, and Refused in the one that records a refusal.
	// Each of them takes effect at most once, in whatever process. They must not end tx. Default none.
	Begin   func(ctx context.Context, tx pgx.Tx, in In) error
	Finish  func(ctx context.Context, tx pgx.Tx, in In, out Out) error
	Refused func(ctx context.Context, tx pgx.Tx, in In, why error) error

	// Ref returns the provider's id of what happened. It is required with KeyKept and with
	// Find: two effects of one call are told apart by it. A result for which it returns nothing is no
	// success: the outcome is not known then.
	Ref func(out Out) string
	// KeyKept is how long the provider keeps a.Key after its first use. No attempt is made
	// that may take effect when the key is forgotten: Timeout and Settles are counted. It is at
	// least four times Timeout, more than Settles and Options.Lease leave no time for, and at most
	// Retention's Result and Tombstone together, or [Forever]. Zero, the default, means that it
	// takes none.
	KeyKept time.Duration
	// Settles is how long after an attempt has ended it may still take effect, or become
	// visible to Find. Zero, the default, means that this is not known: then nothing is
	// made of a Find that finds nothing. At most a year.
	Settles time.Duration
	// Timeout bounds one attempt. Default 20 s, at most a year.
	Timeout time.Duration

	// Retention says how long the answer is replayed, as in [dedup.Call].
	Retention dedup.Retention
}

// Attempt is what Perform and Find are given.
type Attempt struct {
	// Key is for the provider: a UUID of 36 characters, one per call, the same in every
	// attempt.
	Key string
	// Fence grows with each attempt, for a provider that refuses lower ones.
	Fence int64
	// Scope and CallKey are those of the call.
	Scope, CallKey string
}

const defaultTimeout = 20 * time.Second

// definition is a Tool without its types.
type definition struct {
	name string
	// takes says whether the tool can read an input: one that it cannot would be attempted for
	// ever. verdict is the result that a person has given, as the tool itself would write it.
	takes                     func(in json.RawMessage) error
	perform                   func(ctx context.Context, a Attempt, in json.RawMessage) (json.RawMessage, error)
	find                      func(ctx context.Context, a Attempt, in json.RawMessage) ([]json.RawMessage, error)
	begin                     func(ctx context.Context, tx pgx.Tx, in json.RawMessage) error
	finish                    func(ctx context.Context, tx pgx.Tx, in, out json.RawMessage) error
	refused                   func(ctx context.Context, tx pgx.Tx, in json.RawMessage, why error) error
	ref                       func(out json.RawMessage) string
	verdict                   func(out json.RawMessage) (json.RawMessage, error)
	keyKept, settles, timeout time.Duration
	retention                 dedup.Retention
}

// Problems returns all for which [Add] would refuse a tool, each an option of it; nil where Add
// takes it. A nil x leaves out what depends on x. It adds nothing: use it where several
// tools are to be added, or none.
func Problems[In, Out any](x *Tools, t Tool[In, Out]) []*dedup.InvalidError {
	all := t.problems()
	if x == nil {
		return all
	}
	retention := t.Retention.Or(x.d.Options().Retention)
	_, err := dedup.New(x.pool, &dedup.Options{Retention: retention})
	bad, ok := errors.AsType[*dedup.InvalidError](err)
	if ok {
		all = append(all, bad)
	}
	if t.KeyKept > 0 && t.KeyKept != Forever {
		if least := x.keyNeeds(t.Settles, t.timeout()); t.KeyKept <= least {
			all = append(all, badOption("KeyKept", "is %s, and a key is sent again only within KeyKept less %s, by Settles, Timeout and Options.Lease: it never would be", t.KeyKept, least))
		}
		if kept := retention.Result + max(retention.Tombstone, 0); !ok && t.KeyKept > kept {
			all = append(all, badOption("KeyKept", "is %s, and the answer is remembered for %s: a later call of the same identity would be given the old effect", t.KeyKept, kept))
		}
	}
	if x.Has(t.Name) {
		all = append(all, taken(t.Name))
	}
	return all
}

func taken(name string) *dedup.InvalidError {
	return badOption("Name", "%q is taken by another tool", name)
}

func badOption(field, format string, args ...any) *dedup.InvalidError {
	return &dedup.InvalidError{What: "option", Field: "Tool." + field, Reason: fmt.Sprintf(format, args...)}
}

// problems says all that is wrong with the tool by itself.
func (t *Tool[In, Out]) problems() (all []*dedup.InvalidError) {
	report := func(field, format string, args ...any) { all = append(all, badOption(field, format, args...)) }
	if problem := table.NameProblem("Tool", t.Name); problem != "" {
		report("Name", "%s", problem)
	}
	if t.Perform == nil {
		report("Perform", "is nil")
	}
	if t.KeyKept < 0 || t.Settles < 0 || t.Timeout < 0 {
		report("Timeout", "is negative, or KeyKept or Settles is")
	}
	if t.Settles > maxSpan || t.Timeout > maxSpan {
		report("Timeout", "is longer than a year, or Settles is")
	}
	if t.Ref == nil && (t.Find != nil || t.KeyKept > 0) {
		report("Ref", "is nil: with Find or KeyKept an effect may happen twice, and only its ref shows that")
	}
	if t.Settles > 0 && t.Find == nil && t.KeyKept == 0 {
		report("Settles", "is of no use without Find or KeyKept")
	}
	if t.KeyKept > 0 && t.Settles >= t.KeyKept {
		report("Settles", "is %s, as long as KeyKept or longer: the key would be forgotten before an attempt can no longer take effect", t.Settles)
	}
	if timeout := t.timeout(); t.KeyKept > 0 && timeout > t.KeyKept/4 {
		report("Timeout", "is %s, and at most a quarter of KeyKept leaves time to send the key again", timeout)
	}
	return all
}

func (t *Tool[In, Out]) timeout() time.Duration {
	if t.Timeout == 0 {
		return defaultTimeout
	}
	return t.Timeout
}

// erase returns the tool without its types.
func (t *Tool[In, Out]) erase() *definition {
	d := &definition{
		name: t.Name, takes: takes[In], keyKept: t.KeyKept, settles: t.Settles, timeout: t.timeout(), retention: t.Retention,
		perform: func(ctx context.Context, a Attempt, raw json.RawMessage) (json.RawMessage, error) {
			in, err := decodeInput[In](raw)
			if err != nil {
				return nil, NotDone(err)
			}
			out, err := t.Perform(ctx, a, in)
			if err != nil {
				return nil, err
			}
			return t.happened(out)
		},
		ref: func(raw json.RawMessage) string {
			out, err := decode[Out](raw)
			if t.Ref == nil || err != nil {
				return ""
			}
			return refOf(out, t.Ref)
		},
		verdict: t.verdict,
	}
	if t.Find != nil {
		d.find = func(ctx context.Context, a Attempt, raw json.RawMessage) (all []json.RawMessage, err error) {
			in, err := decodeInput[In](raw)
			if err != nil {
				return nil, err
			}
			outs, err := t.Find(ctx, a, in)
			for _, out := range outs {
				text, err := t.happened(out)
				if err != nil {
					return nil, err
				}
				all = append(all, text)
			}
			return all, err
		}
	}
	if t.Begin != nil {
		d.begin = func(ctx context.Context, tx pgx.Tx, raw json.RawMessage) error {
			return reading(raw, func(in In) error { return t.Begin(ctx, tx, in) })
		}
	}
	if t.Finish != nil {
		d.finish = func(ctx context.Context, tx pgx.Tx, rawIn, rawOut json.RawMessage) error {
			out, err := decode[Out](rawOut)
			if err != nil {
				return err
			}
			return reading(rawIn, func(in In) error { return guarded(func() error { return t.Finish(ctx, tx, in, out) }) })
		}
	}
	if t.Refused != nil {
		d.refused = func(ctx context.Context, tx pgx.Tx, raw json.RawMessage, why error) error {
			return reading(raw, func(in In) error { return guarded(func() error { return t.Refused(ctx, tx, in, why) }) })
		}
	}
	return d
}

var errNoRef = errors.New("dedup: the result lacks the provider's id, which the tool's Ref returns")

// happened is the text of a result. One without a ref, such as that of a body which the client did not
// understand, is not known to be an effect.
func (t *Tool[In, Out]) happened(out Out) (json.RawMessage, error) {
	if t.Ref != nil && refOf(out, t.Ref) == "" {
		return nil, errNoRef
	}
	return encode(out, t.Ref)
}

// verdict reads a result that a person has written, who may not know the names of the
// tool's fields: a member that Out lacks, a null that is no Out, or a result without a ref
// is no result of this tool. What the library has kept itself, because it could not be
// recorded, is taken as it is.
func (t *Tool[In, Out]) verdict(raw json.RawMessage) (json.RawMessage, error) {
	out, err := decode[Out](raw)
	if err != nil {
		return nil, err
	}
	text, err := encode(out, t.Ref)
	if err != nil || bytes.Equal(text, raw) {
		return text, err
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, errors.New("dedup: null is no result of the tool")
	}
	if err := guarded(func() error { return strictly(raw, new(Out)) }); err != nil {
		return nil, fmt.Errorf("dedup: it is no result of the tool: %w", err)
	}
	if t.Ref != nil && refOf(out, t.Ref) == "" {
		return nil, errNoRef
	}
	if reflect.TypeFor[Out]().Kind() == reflect.Struct { // whose fields have one spelling
		return text, nil
	}
	return raw, nil // which keeps every digit of a number
}

func decode[T any](raw json.RawMessage) (value T, err error) {
	err = guarded(func() error { return json.Unmarshal(raw, &value) })
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // whose text has the value
		return value, fmt.Errorf("dedup: the stored input or result no longer fits the tool's type: %q is no %s", wrong.Field, wrong.Type)
	}
	if err != nil {
		return value, errors.New("dedup: the stored input or result no longer fits the tool's type")
	}
	return value, nil
}

// decodeInput reads an input as a whole: a member that In lacks is one that another release has written,
// and without it the effect would be another. Its error names the member at fault, and no value.
func decodeInput[In any](raw json.RawMessage) (in In, err error) {
	reason := "cannot be read as the tool's input"
	err = guarded(func() error { return json.Unmarshal(raw, &in) })
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		reason = fmt.Sprintf("does not fit the tool's input at %q", wrong.Field)
	}
	if err == nil {
		unknown := guarded(func() error { return strictly(raw, new(In)) })
		if unknown == nil {
			return in, nil
		}
		reason = "has a member that the tool's input lacks: " + strings.TrimPrefix(unknown.Error(), "json: ")
	}
	return in, &dedup.InvalidError{What: "call", Field: "in", Reason: reason, Err: err}
}

// reading does something with a stored input.
func reading[In any](raw json.RawMessage, do func(In) error) error {
	in, err := decodeInput[In](raw)
	if err != nil {
		return err
	}
	return do(in)
}

// takes says whether an input can be read.
func takes[In any](raw json.RawMessage) error {
	_, err := decodeInput[In](raw)
	return err
}

// strictly reads a valid text, and refuses members that the value has no field for.
func strictly(raw json.RawMessage, value any) error {
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	return strict.Decode(value)
}

// encode makes the text of a result. A result that has none is an effect all the same.
func encode[T any](out T, ref func(T) string) (json.RawMessage, error) {
	text, err := safely(func() ([]byte, error) { return marshal(out) })
	if err == nil && !utf8.Valid(text) {
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		failed := &unrecordable{err: fmt.Errorf("dedup: the result cannot be encoded: %w", err)}
		if ref != nil {
			failed.ref = refOf(out, ref)
		}
		return nil, failed
	}
	return text, nil
}

// marshal is json.Marshal that leaves out nothing silently, as package dedup does it, and
// leaves <, > and & as they are: models read results.
func marshal(value any) ([]byte, error) { return canon.Encode(value, maxText, false) }

// maxText is more than any input or result may have.
const maxText = 256 << 20

// refOf is the ref of a result; none where Ref panics.
func refOf[T any](out T, ref func(T) string) string {
	text, _ := safely(func() (string, error) { return ref(out), nil })
	return cleaned(text)
}

// guarded turns a panic into an error.
func guarded(f func() error) error {
	_, err := safely(func() (struct{}, error) { return struct{}{}, f() })
	return err
}
