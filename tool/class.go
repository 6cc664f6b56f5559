package tool

// Class says what running a tool again would do, and so what has to be done
// about it. There is no default: whoever writes a tool has to say.
type Class string

const (
	// Unclassified is the zero Class, with which no tool is registered.
	Unclassified Class = ""
	// ReadOnly changes nothing. It runs without a key, as often as it is called,
	// in a transaction that Postgres itself keeps from writing. A tool that ends
	// that transaction can write; its call then is dedup.ErrInvalid, unless it
	// has begun another by then.
	ReadOnly Class = "read_only"
	// Idempotent overwrites something with a value that the arguments fix, so
	// that running it again changes nothing more: "set the address to …". A key
	// is optional; with one the answer is recorded as for a Write.
	Idempotent Class = "idempotent"
	// Write changes something each time that it runs: it creates, adds, moves.
	// It needs a key.
	Write Class = "write"
	// Destructive is a Write whose effect cannot be taken back, and clients are
	// told so: it deletes, cancels, pays.
	Destructive Class = "destructive"
	// External has an effect outside of the database, such as an email, which no
	// transaction can hold: that of an [ExternalTool], which may be Destructive as well.
	External Class = "external"
)

// Writes reports whether a tool of the class may change something.
func (c Class) Writes() bool { return c != ReadOnly && c != Unclassified }

// NeedsKey reports whether a call of a tool of the class must have a key.
func (c Class) NeedsKey() bool { return c == Write || c == Destructive || c == External }
