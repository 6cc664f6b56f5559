package external

import (
	"crypto/sha256"
	"fmt"

	"github.com/tooldedup/dedup/internal/canon"
)

// providerKey is the key that a provider is given for a call: a UUID (version 8, RFC 9562)
// made of the SHA-256 of the call's identity. 36 characters of ASCII fit every provider
// that was looked at, and a hash of 43 characters does not. The same call always has the
// same one, so that it survives the loss of everything that is stored here.
func providerKey(scope, tool, key string) string {
	b := canon.AppendPart(canon.AppendPart(canon.AppendPart([]byte("dedup/external/v1"), scope), tool), key)
	s := sha256.Sum256(b)
	s[6], s[8] = s[6]&0x0f|0x80, s[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", s[0:4], s[4:6], s[6:8], s[8:10], s[10:16])
}
