package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
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
	// Errors overrides Options.StoreErrors.
	Errors ErrorPolicy

	// LookFirst looks the record up before anything else, in one round trip and
	// outside a transaction. Set it where a replay is likely, on a second try for
	// one: a replay costs one round trip then, and a first call one more.
	LookFirst bool
}

// ErrorPolicy says what becomes of an effect's errors.
type ErrorPolicy int

const (
	// ErrorsDefault does what Options.StoreErrors says.
	ErrorsDefault ErrorPolicy = iota
	// ErrorsRollBack stores only errors that are wrapped by [Final].
	ErrorsRollBack
	// ErrorsStored stores every error as if it were wrapped by [Final], but
	// for transient database errors and context errors.
	ErrorsStored
)

// identity is the primary key of tool_dedup.
type identity struct {
	scope, tool, key string
}

// lockKey is the advisory lock of the identity. A collision with another
// identity or with a lock of the application makes twins of strangers: they
// wait for each other, and their answers stay their own.
func (id identity) lockKey(schema string) int64 {
	var buf [512]byte
	b := append(buf[:0], "dedup/lock/v1"...)
	for _, part := range [...]string{schema, id.scope, id.tool, id.key} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// request is a Call that has been checked, with everything that the statements
// need.
type request struct {
	identity
	lock        int64
	fingerprint Fingerprint
	argDigests  []byte
	retention   Retention
	maxWait     time.Duration
	storeErrors bool
	lookFirst   bool
}

// check makes of a call the request req, or says what is wrong with it. Nothing
// is sent to the database before this has passed.
func (d *Deduper) check(call Call, req *request) error {
	id, err := checkIdentity(call.Scope, call.Tool, call.Key)
	if err != nil {
		return err
	}
	retention, problem := call.Retention.resolve(d.opts.Retention)
	if problem != "" {
		return &InvalidCallError{Field: "Retention", Reason: "cannot be used: " + problem}
	}
	*req = request{
		identity:    id,
		lock:        id.lockKey(d.opts.Schema),
		retention:   retention,
		maxWait:     call.MaxWait,
		storeErrors: d.opts.StoreErrors,
		lookFirst:   call.LookFirst,
	}
	setDefault(&req.maxWait, d.opts.MaxWait)
	switch call.Errors {
	case ErrorsDefault:
	case ErrorsRollBack, ErrorsStored:
		req.storeErrors = call.Errors == ErrorsStored
	default:
		return &InvalidCallError{Field: "Errors", Reason: "has an unknown policy; use ErrorsDefault, ErrorsRollBack or ErrorsStored"}
	}
	req.fingerprint, req.argDigests, err = digest(id.scope, id.tool, id.key, call.Args)
	return err
}

func checkIdentity(scope, tool, key string) (identity, error) {
	id := identity{scope, tool, key}
	if err := validateName("Scope", scope); err != nil {
		return id, err
	}
	if err := validateName("Tool", tool); err != nil {
		return id, err
	}
	return id, validateName("Key", key)
}
