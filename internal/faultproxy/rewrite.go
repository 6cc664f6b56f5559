package faultproxy

import (
	"encoding/binary"
	"slices"
)

// Rewrite passes the texts of all statements through rewrite on their way to the server, both
// parsed ones and those of the simple protocol. Units keep the client's texts. Nil ends it.
func (p *Proxy) Rewrite(rewrite func(sql string) string) {
	p.armory.mu.Lock()
	defer p.armory.mu.Unlock()
	p.armory.rewrite = rewrite
}

// rewritten rewrites the text at a position of a message.
func (l *armory) rewritten(messages []byte, at int) []byte {
	l.mu.Lock()
	rewrite := l.rewrite
	l.mu.Unlock()
	if rewrite == nil {
		return messages
	}
	kind, body := messages[at], messages[at+headerSize:]
	var name, rest []byte
	switch kind {
	case kindQuery:
		rest = body
	case kindParse:
		end := slices.Index(body, 0) + 1
		name, rest = body[:end], body[end:]
	default:
		return messages
	}
	text, types := cstring(rest)
	message := slices.Concat([]byte{kind, 0, 0, 0, 0}, name, []byte(rewrite(text)), []byte{0}, types)
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-1))
	return append(messages[:at], message...)
}
