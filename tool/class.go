package tool

// Class says what running a tool a second time does, and so how its calls are guarded. It has no
// default: every tool declares one.
type Class string

const (
	// Unclassified is the zero Class. Registry.Add refuses it.
	Unclassified Class = ""
	// ReadOnly changes nothing. It runs without a key, each time that it is called, in a READ ONLY
	// transaction. A write is refused by Postgres, and the call returns dedup.ErrInvalid. A tool
	// can write only by ending that transaction; its call then returns dedup.ErrInvalid too, unless
	// the tool began another transaction before it returned.
	ReadOnly Class = "read_only"
	// Idempotent overwrites something with a value that the arguments fix, such as "set the address
	// to …": running it again changes nothing more. A key is optional. With a key the answer is
	// recorded, as for a Write.
	Idempotent Class = "idempotent"
	// Write changes something each time it runs: it creates, adds, moves. It needs a key.
	Write Class = "write"
	// Destructive is a Write whose effect cannot be undone: it deletes, cancels, pays. MCP clients
	// are told so.
	Destructive Class = "destructive"
	// External has an effect outside the database, such as an email, which no transaction can roll
	// back. Only an [ExternalTool] has this class; an ExternalTool may be Destructive instead.
	External Class = "external"
)

// Writes reports whether a tool of the class may change something.
func (c Class) Writes() bool { return c != ReadOnly && c != Unclassified }

// NeedsKey reports whether a call of a tool of the class must have a key.
func (c Class) NeedsKey() bool { return c == Write || c == Destructive || c == External }
