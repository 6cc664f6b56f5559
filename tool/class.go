package tool

import "fmt"

// Class says what running a tool again would do, and so what has to be done
// about it. There is no default: whoever writes a tool has to say.
type Class int

const (
	// Unclassified is the zero Class, with which no tool is registered.
	Unclassified Class = iota
	// ReadOnly changes nothing. It runs without a key, as often as it is called,
	// in a transaction that Postgres itself keeps from writing. A tool that ends
	// that transaction can write; its call then is dedup.ErrInvalid, unless it
	// has begun another by then.
	ReadOnly
	// Idempotent overwrites something with a value that the arguments fix, so
	// that running it again changes nothing more: "set the address to …". A key
	// is optional; with one the answer is recorded as for a Write.
	Idempotent
	// Write changes something each time that it runs: it creates, adds, moves.
	// It needs a key.
	Write
	// Destructive is a Write whose effect cannot be taken back, and clients are
	// told so: it deletes, cancels, pays.
	Destructive
	// External has an effect outside of the database, such as an email, which no
	// transaction can hold: that of an [ExternalTool], which may be Destructive as well.
	External
)

// String returns the class's name in lower case, with underscores.
func (c Class) String() string {
	switch c {
	case Unclassified:
		return "unclassified"
	case ReadOnly:
		return "read_only"
	case Idempotent:
		return "idempotent"
	case Write:
		return "write"
	case Destructive:
		return "destructive"
	case External:
		return "external"
	default:
		return fmt.Sprintf("class(%d)", int(c))
	}
}

// Writes reports whether a tool of the class may change something.
func (c Class) Writes() bool { return c != ReadOnly && c != Unclassified }

// NeedsKey reports whether a call of a tool of the class must have a key.
func (c Class) NeedsKey() bool { return c == Write || c == Destructive || c == External }
