package external

import (
	"crypto/sha256"
	"fmt"

	"github.com/tooldedup/dedup/internal/canon"
)

// providerKey returns the key for a provider: a UUID (version 8, RFC 9562) made from the SHA-256 of
// the call's identity. A UUID has 36 characters of ASCII, which common providers accept; a hash of
// 43 characters is too long for some. The key depends on the identity alone, so it survives the
// loss of the database.
func providerKey(scope, tool, key string) string {
	b := canon.AppendPart(canon.AppendPart(canon.AppendPart([]byte("dedup/external/v1"), scope), tool), key)
	s := sha256.Sum256(b)
	s[6], s[8] = s[6]&0x0f|0x80, s[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", s[0:4], s[4:6], s[6:8], s[8:10], s[10:16])
}
