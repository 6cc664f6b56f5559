package scale

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tooldedup/dedup"
)

// KeyKind is where in the primary key's index a new record falls.
type KeyKind string

const (
	OrderedKeys KeyKind = "ordered" // as of dedup.NewKey: beside the last one
	RandomKeys  KeyKind = "random"  // as of any hash: anywhere
)

// newKey returns a key of the kind that was made at the given time, in the form
// of dedup.NewKey, which makes its keys at the present only. Nothing needs to be
// secret about it.
func (k KeyKind) newKey(at time.Time) string {
	var random [16]byte
	binary.BigEndian.PutUint64(random[0:], rand.Uint64())
	binary.BigEndian.PutUint64(random[8:], rand.Uint64())
	key := base64.RawURLEncoding.EncodeToString(random[:])
	if k == RandomKeys {
		return key
	}
	timed, err := dedup.TimedKey(at, key)
	if err != nil {
		panic(err) // at is a time of this century
	}
	return timed
}

func (k KeyKind) check() error {
	if k != OrderedKeys && k != RandomKeys {
		return fmt.Errorf("unknown kind of keys %q: choose %s or %s", k, OrderedKeys, RandomKeys)
	}
	return nil
}
