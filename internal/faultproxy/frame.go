package faultproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Message types the proxy acts on; all others are only measured and passed on.
const (
	kindQuery    = 'Q'
	kindFunction = 'F'
	kindParse    = 'P'
	kindBind     = 'B'
	kindExecute  = 'E' // from the client
	kindClose    = 'C' // from the client
	kindDescribe = 'D' // from the client
	kindFlush    = 'H' // from the client
	kindSync     = 'S' // from the client
	kindQuit     = 'X'

	kindAuth     = 'R'
	kindComplete = 'C' // from the server
	kindCopyIn   = 'G'
	kindCopyBoth = 'W'
	kindCopyData = 'd'
	kindDataRow  = 'D' // from the server
	kindReady    = 'Z'
	kindNotice   = 'N'
	kindNotify   = 'A'
	kindSetting  = 'S' // from the server
)

// Codes of the untyped packets a connection begins with.
const (
	codeCancel = 80877102
	codeSSL    = 80877103
	codeGSS    = 80877104
)

const (
	maxStartup = 10_000  // Postgres refuses longer start-up packets
	maxFrame   = 1 << 30 // and longer messages
)

var errBadFrame = errors.New("faultproxy: impossible frame length")

// frameReader follows the messages of one direction through a byte stream that arrives in arbitrary pieces. It copies
// nothing but the bodies it was asked to keep.
type frameReader struct {
	keep func(kind byte) int // how many bytes of a body of this kind are wanted

	header [5]byte
	seen   int // bytes of the header read so far
	left   int // bytes of the body still to come
	body   []byte
}

// next consumes the bytes of block that belong to the current message. When done is true the message is complete, and
// kind and body describe it until the following call.
func (r *frameReader) next(block []byte) (n int, done bool, err error) {
	if r.seen == 0 {
		r.body = r.body[:0]
	}
	if r.seen < len(r.header) {
		n = copy(r.header[r.seen:], block)
		if r.seen += n; r.seen < len(r.header) {
			return n, false, nil
		}
		size := binary.BigEndian.Uint32(r.header[1:])
		if size < 4 || size > maxFrame {
			return n, false, fmt.Errorf("%w: %d in a message of type %q", errBadFrame, size, r.header[0])
		}
		r.left = int(size) - 4
	}

	part := min(r.left, len(block)-n)
	if room := r.keep(r.header[0]) - len(r.body); room > 0 {
		r.body = append(r.body, block[n:n+min(room, part)]...)
	}
	n += part
	if r.left -= part; r.left > 0 {
		return n, false, nil
	}
	r.seen = 0
	return n, true, nil
}

// atStart reports whether the next byte begins a message.
func (r *frameReader) atStart() bool { return r.seen == 0 }

func (r *frameReader) kind() byte { return r.header[0] }

// keepFromClient wants the SQL texts whole, of the rest only what holds the names.
func keepFromClient(kind byte) int {
	switch kind {
	case kindQuery, kindParse:
		return maxFrame
	case kindBind, kindExecute, kindClose:
		return 1024
	}
	return 0
}

// keepFromServer wants the command tag and the authentication code.
func keepFromServer(kind byte) int {
	switch kind {
	case kindComplete:
		return 64
	case kindAuth:
		return 4
	}
	return 0
}

// readStartup reads one untyped packet whole and returns it with its code.
func readStartup(r io.Reader) (packet []byte, code uint32, err error) {
	packet = make([]byte, 8)
	if _, err = io.ReadFull(r, packet); err != nil {
		return nil, 0, err
	}
	size := binary.BigEndian.Uint32(packet)
	if size < 8 || size > maxStartup {
		return nil, 0, fmt.Errorf("%w: %d in a start-up packet", errBadFrame, size)
	}
	code = binary.BigEndian.Uint32(packet[4:])
	packet = append(packet, make([]byte, size-8)...)
	_, err = io.ReadFull(r, packet[8:])
	return packet, code, err
}
