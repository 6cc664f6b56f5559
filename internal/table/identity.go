package table

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"github.com/tooldedup/dedup/internal/wire"
)

// Identity is the primary key of tool_dedup.
type Identity struct {
	Scope, Tool, Key string
}

// LockKey is the advisory lock of the identity. A collision with another
// identity or with a lock of the application makes twins of strangers: they
// wait for each other, and their answers stay their own.
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

// Compare orders identities, so that those who need several take them in one order.
func (id Identity) Compare(other Identity) int {
	return cmp.Or(strings.Compare(id.Scope, other.Scope), strings.Compare(id.Tool, other.Tool), strings.Compare(id.Key, other.Key))
}

func (id *Identity) params() []wire.Param {
	return []wire.Param{wire.Text(id.Scope), wire.Text(id.Tool), wire.Text(id.Key)}
}

// Entry is what a call brings to the table: its identity, and what its record says of
// it.
type Entry struct {
	Identity
	Lock        int64
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	// Keep is how long the result is replayed, Forget how long the identity is
	// remembered, both from the moment that the record is written.
	Keep, Forget time.Duration
}

// Known is what package external gives as a call's arguments: the digests that stand in
// its own table, because the arguments themselves may be encoded in another way by now,
// and the record where one statement has read both tables.
type Known struct {
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	Record      *Record // nil where there is none
}

// ids are the parameters of a statement on many identities.
func ids(entries []*Entry) []wire.Param {
	scopes, tools, keys := make([]string, len(entries)), make([]string, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		scopes[i], tools[i], keys[i] = e.Scope, e.Tool, e.Key
	}
	return []wire.Param{wire.Texts(scopes), wire.Texts(tools), wire.Texts(keys)}
}
