package table

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Identity is the primary key of tool_dedup.
type Identity struct {
	Scope, Tool, Key string
}

// LockKey returns the key of the advisory lock of the identity. If two identities, or an identity
// and a lock of the application, have one key, they wait for each other; their answers are not
// affected.
func (id Identity) LockKey(schema string) int64 {
	var buf [512]byte
	b := append(buf[:0], "dedup/lock/v1"...)
	for _, part := range [...]string{schema, id.Scope, id.Tool, id.Key} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// Compare orders identities, so that every transaction takes several of them in the same order.
func (id Identity) Compare(other Identity) int {
	return cmp.Or(strings.Compare(id.Scope, other.Scope), strings.Compare(id.Tool, other.Tool), strings.Compare(id.Key, other.Key))
}

// Problem returns the first name that is invalid and the reason; both are empty if all names are
// valid.
func (id Identity) Problem() (field, problem string) {
	for _, name := range [...]struct{ field, name string }{{"Scope", id.Scope}, {"Tool", id.Tool}, {"Key", id.Key}} {
		if problem := NameProblem(name.field, name.name); problem != "" {
			return name.field, problem
		}
	}
	return "", ""
}

// maxNameLen is the maximum length in bytes of a scope, a tool or a key. Three names of that length
// fit an entry of a Postgres B-tree (2,704 bytes on a page of 8 kB), so that a valid name cannot
// fail there.
const maxNameLen = 255

// NameProblem returns the reason why a name cannot be a Scope, Tool or Key, or "". It accepts 1 to
// maxNameLen bytes of valid UTF-8 without control characters, a subset of the values that Postgres
// can store and compare as text COLLATE "C". Names are compared by bytes: nothing is trimmed,
// folded or normalised, so "é" as one code point and as two are two names. Normalising would merge
// keys that their makers consider different, and would change with each version of Unicode.
func NameProblem(field, name string) string {
	switch {
	case name == "" && field == "Scope":
		return "is empty; give the tenant, client or account that the call belongs to"
	case name == "" && field == "Tool":
		return "is empty; give the tool a stable name of its own"
	case name == "":
		return "is empty; make one where the intent is formed (NewKey, KeyFromToolCall) and send it with every retry"
	case len(name) > maxNameLen:
		return fmt.Sprintf("is %d bytes long, and %d is the most; hash it (KeyFromIntent does)", len(name), maxNameLen)
	}
	for i := 0; i < len(name); {
		r, size := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(name[i:])
		}
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("is not valid UTF-8 at byte %d; encode binary names as hex or base64url", i)
		}
		if unicode.IsControl(r) {
			return fmt.Sprintf("has a control character at byte %d; remove it", i)
		}
		i += size
	}
	return ""
}

// Entry is a call's identity with the fields of its record, except for the result.
type Entry struct {
	Identity
	Lock        int64
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Keep is the time for which the result is replayed, 0 if the answer is not kept. Forget is the
	// time for which the identity is remembered. Both begin when the record is written.
	Keep, Forget time.Duration
}

// Outcome is how a call ended, as its record stores it.
type Outcome string

const (
	Done    Outcome = "done"    // the result is the answer
	Refused Outcome = "refused" // the result is the refusal
	Broken  Outcome = "broken"  // the effect ended its own transaction
	claimed Outcome = "claimed" // a claim, before its COMMIT
)

// Record is a row of tool_dedup without its identity.
type Record struct {
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	Outcome     Outcome
	Result      string
	Tombstone   bool // the row has no result: it was dropped, or never kept
	CreatedAt   time.Time
	ExpiresAt   time.Time
	ForgetAt    time.Time
	// SeenAt is the database's clock when the row was read or written. Ages are compared by this
	// clock only.
	SeenAt time.Time
	// SentAt is the time at which the statement that read or wrote the row was sent, by this
	// machine's clock.
	SentAt time.Time

	// keep is ExpiresAt minus CreatedAt of a record that this process writes.
	keep time.Duration
}

// Kept reports whether the answer was to be kept for a time.
func (r *Record) Kept() bool { return r.ExpiresAt.After(r.CreatedAt) }

// KeptUntil returns ExpiresAt, or zero if the answer is not kept.
func (r *Record) KeptUntil() time.Time {
	if !r.Kept() {
		return time.Time{}
	}
	return r.ExpiresAt
}

// IsOf reports whether the record is the one that an attempt sent as written. It is always false
// for an answer that is kept.
func (r *Record) IsOf(written *Record) bool {
	return written.keep < 0 && r.ExpiresAt.Sub(r.CreatedAt) == written.keep
}

// Forgotten reports whether the identity may be used anew.
func (r *Record) Forgotten() bool { return !r.SeenAt.Before(r.ForgetAt) }

// Expired reports whether the result may no longer be replayed.
func (r *Record) Expired() bool { return r.Tombstone || !r.SeenAt.Before(r.ExpiresAt) }

// Erased reports whether an Erasure removed the answer and the fingerprint.
func (r *Record) Erased() bool { return r.Fingerprint == [sha256.Size]byte{} }

// Accepts reports whether a call with this fingerprint may get the answer. An erased record accepts
// all calls, because their answer is ErrExpired.
func (r *Record) Accepts(fingerprint [sha256.Size]byte) bool {
	return r.Fingerprint == fingerprint || r.Erased()
}

// IsBroken reports whether the effect ended its own transaction. A visible claim was committed by
// its own effect.
func (r *Record) IsBroken() bool { return r.Outcome == Broken || r.Outcome == claimed }

// Age returns the time since the record was written.
func (r *Record) Age() time.Duration { return r.SeenAt.Sub(r.CreatedAt) }

// Known replaces the arguments of a call whose digests are stored in another table of the library.
// By now the arguments may be encoded differently.
type Known struct {
	Identity
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Record is the call's record if it was read together with the digests, else nil.
	Record *Record
}

type knownKey struct{}

// WithKnown returns a context in which the call of k's identity uses the digests in k instead of
// its arguments. Other calls are not affected.
func WithKnown(ctx context.Context, k Known) context.Context {
	return context.WithValue(ctx, knownKey{}, &k)
}

// KnownOf returns the Known of a call in ctx, or nil.
func KnownOf(ctx context.Context, id Identity) *Known {
	if k, ok := ctx.Value(knownKey{}).(*Known); ok && k.Identity == id {
		return k
	}
	return nil
}
