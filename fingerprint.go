package dedup

import "github.com/tooldedup/dedup/internal/canon"

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
