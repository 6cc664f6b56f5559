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

// Final marks an effect's error as the call's answer: the effect is rolled back, the refusal is
// recorded, and every caller of the identity gets it as an equal *[RefusedError]. Use it for
// answers that a retry must not change, such as "card declined". Do not use it for a refusal that
// the caller can correct or that time changes, such as "no such ticket": a later call with the key
// gets it too. Other errors are not recorded, unless Call.StoreErrors is set, and the next call
// runs the effect again.
//
// The record keeps err's message, the code if err or an error that it wraps has a method `Code()
// string`, and the details if one of them implements [json.Marshaler]. U+FFFD replaces bytes of
// message and code that are not valid UTF-8. Errors that wrap Final(err) are not kept. A transient
// database error is retried and not recorded, even if Final marks it. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

func (e *finalError) Unwrap() error { return e.err }

// NotFinal marks an effect's error as never to be recorded: the effect rolls back even if
// Call.StoreErrors records all other errors. It has precedence over [Final], inside or outside
// it. Use it for errors that the caller is to correct before it calls again with the same key.
// NotFinal(nil) is nil.
func NotFinal(err error) error {
	if err == nil {
		return nil
	}
	return &notFinalError{err}
}

type notFinalError struct{ err error }

func (e *notFinalError) Error() string { return e.err.Error() }

func (e *notFinalError) Unwrap() error { return e.err }

// RefusedError is a recorded refusal. The first caller and all later callers get equal errors,
// except for Replayed, Recovered and the error that Unwrap returns: the effect's own error, which
// only its own caller gets.
type RefusedError struct {
	// Message is the text of the error given to [Final].
	Message string
	// Code is the code of that error, empty if it has none.
	Code string
	// Details is the JSON of that error, nil if it has none.
	Details json.RawMessage
	// OfDatabase reports whether Message has the text of an error of the database or its driver.
	// Such a text may quote arguments and rows: do not show it to clients.
	OfDatabase bool
	// Replayed reports whether the refusal came from the record.
	Replayed bool
	// Recovered reports, as Result.Recovered does, that this call wrote the record, and that only
	// the reply to its COMMIT was lost.
	Recovered bool
	// CreatedAt is the time at which the refusal was recorded, by the database's clock.
	CreatedAt time.Time

	err error
	in  *refusedIn // nil unless DoTx returned the refusal
}

// refusedIn locates a refusal's record in a transaction.
type refusedIn struct {
	on      *wire.Conn
	started time.Time // identifies the transaction, as in attempt
	table   *table.Table
	id      table.Identity
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool {
	return target == ErrRefused || target == errOfDatabase && e.OfDatabase
}

// errOfDatabase finds a refusal that is OfDatabase in the error of another call. A replay of it has
// no other trace of the database.
var errOfDatabase = errors.New("dedup: a refusal with the database's text")

// Unwrap returns the effect's own error if this call ran the effect, else nil.
func (e *RefusedError) Unwrap() error { return e.err }

// refusalJSON is the format of a refusal in the result column.
type refusalJSON struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
	// OfDatabase is decided from the error and its whole text: a cut may remove the SQLSTATE.
	OfDatabase bool `json:"of_database,omitempty"`
}

// encodeRefusal returns the text that records err as a refusal. It cuts a message that is longer
// than max.
func encodeRefusal(err error, max int) (string, error) {
	refusal := refusalJSON{Message: validText(err.Error()), OfDatabase: wire.IsOfDatabase(err) || errors.Is(err, errOfDatabase)}
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

// maxRefusalMessage is the length in bytes of a cut message.
const maxRefusalMessage = 1024

// validText replaces invalid UTF-8, because a refusal must be recorded whatever bytes its text has.
func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func cutText(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// decodeRefusal returns the error of a recorded refusal.
func decodeRefusal(text string, createdAt time.Time) (*RefusedError, error) {
	var refusal refusalJSON
	if err := json.Unmarshal([]byte(text), &refusal); err != nil {
		return nil, &InvalidError{What: "result", Reason: "is recorded as a refusal that cannot be read", Stored: json.RawMessage(text), Err: err}
	}
	return &RefusedError{
		Message: refusal.Message, Code: refusal.Code, Details: refusal.Details, OfDatabase: refusal.OfDatabase,
		Replayed: true, CreatedAt: createdAt,
	}, nil
}
