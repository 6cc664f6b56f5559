package scale

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// KeyKind is where in the primary key's index a new record falls.
type KeyKind string

const (
	OrderedKeys KeyKind = "ordered" // as of dedup.NewKey: beside the last one
	RandomKeys  KeyKind = "random"  // as of a UUID version 4 or any hash: anywhere
)

// newKey returns a key of the kind that was made at the given time, in the form
// of dedup.NewKey, which makes its keys at the present only. Nothing needs to be
// secret about it.
func (k KeyKind) newKey(at time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[0:], rand.Uint64())
	binary.BigEndian.PutUint64(u[8:], rand.Uint64())
	version := byte(0x40)
	if k == OrderedKeys {
		ms := uint64(at.UnixMilli())
		binary.BigEndian.PutUint16(u[0:], uint16(ms>>32))
		binary.BigEndian.PutUint32(u[2:], uint32(ms))
		version = 0x70
	}
	u[6] = u[6]&0x0f | version
	u[8] = u[8]&0x3f | 0x80

	var text [36]byte
	hex.Encode(text[0:], u[0:4])
	hex.Encode(text[9:], u[4:6])
	hex.Encode(text[14:], u[6:8])
	hex.Encode(text[19:], u[8:10])
	hex.Encode(text[24:], u[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

func (k KeyKind) check() error {
	if k != OrderedKeys && k != RandomKeys {
		return fmt.Errorf("unknown kind of keys %q: choose %s or %s", k, OrderedKeys, RandomKeys)
	}
	return nil
}
