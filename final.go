package dedup

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Final marks an effect's error as the call's answer: the effect is rolled
// back, the refusal is recorded, and every caller, first and later, gets it as
// an equal *[RefusedError]. Use it for answers that a retry must not change,
// such as "card declined". Any other error is not recorded, unless Call.StoreErrors is
// set, and the next try runs again.
//
// Of err the record keeps: its message; its code, when it or an error that it
// wraps has a method `Code() string`; and its details, when one of them
// implements [json.Marshaler]. In message and code U+FFFD takes the place of bytes that
// are not valid UTF-8. Errors around Final(err) are not kept. An err
// that is a transient database error is retried and not recorded: it is no
// answer. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

func (e *finalError) Unwrap() error { return e.err }

// NotFinal marks an effect's error as never to be recorded: it rolls back, also where
// Call.StoreErrors records all others, and whether it stands inside or outside of
// [Final]. Use it for errors that the caller is to correct before it calls again with the same
// key. NotFinal(nil) is nil.
func NotFinal(err error) error {
	if err == nil {
		return nil
	}
	return &notFinalError{err}
}

type notFinalError struct{ err error }

func (e *notFinalError) Error() string { return e.err.Error() }

func (e *notFinalError) Unwrap() error { return e.err }

// RefusedError is a recorded refusal. The first caller's and every later
// caller's are equal but for Replayed, Recovered and what Unwrap returns: the effect's
// own error, which only the caller that ran it has.
type RefusedError struct {
	// Message is the text of the error given to [Final].
	Message string
	// Code is the error's own code, empty when it had none.
	Code string
	// Details is the error's own JSON, nil when it had none.
	Details json.RawMessage
	// Replayed reports whether the refusal came from the record.
	Replayed bool
	// Recovered says, as Result.Recovered does, that the record is this very
	// call's, and only the answer to its COMMIT was lost.
	Recovered bool
	// CreatedAt is when the refusal was recorded, by the database's clock.
	CreatedAt time.Time

	err error
	in  *refusedIn // nil unless it is that of a DoTx
}

// refusedIn is where DoTx has left or found a refusal's record.
type refusedIn struct {
	on      *wire.Conn
	started time.Time // the transaction, as in attempt
	table   *table.Table
	id      table.Identity
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// Unwrap returns the effect's own error in the call that ran it, nil in a
// replay.
func (e *RefusedError) Unwrap() error { return e.err }

// refusalJSON is how a refusal stands in the result column.
type refusalJSON struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// encodeRefusal returns the text that records err as a refusal. A message is
// cut, not refused, when it is longer than max: it is the answer all the same.
func encodeRefusal(err error, max int) (string, error) {
	refusal := refusalJSON{Message: validText(err.Error())}
	if coder := (interface {
		error
		Code() string
	})(nil); errors.As(err, &coder) {
		refusal.Code = validText(coder.Code())
	}
	if marshaler := (interface {
		error
		json.Marshaler
	})(nil); errors.As(err, &marshaler) {
		details, err := marshaler.MarshalJSON()
		if err != nil {
			return "", invalidResult(err, "is a refusal whose details cannot be encoded")
		}
		refusal.Details = details
	}
	text, err := storable(refusal, max)
	if errors.Is(err, ErrInvalid) && len(refusal.Message) > maxRefusalMessage {
		refusal.Message = cutText(refusal.Message, maxRefusalMessage)
		text, err = storable(refusal, max)
	}
	return string(text), err
}

// maxRefusalMessage is how much of a message is kept when the whole does not
// fit the limit of a result.
const maxRefusalMessage = 1024

// validText is a text of a refusal: the answer all the same, whatever bytes it has.
func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func cutText(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// decodeRefusal builds the error that a recorded refusal answers.
func decodeRefusal(text string, createdAt time.Time) (*RefusedError, error) {
	var refusal refusalJSON
	if err := json.Unmarshal([]byte(text), &refusal); err != nil {
		return nil, &InvalidError{What: "result", Reason: "is recorded as a refusal that cannot be read", Stored: json.RawMessage(text), Err: err}
	}
	return &RefusedError{
		Message: refusal.Message, Code: refusal.Code, Details: refusal.Details, Replayed: true, CreatedAt: createdAt,
	}, nil
}
