package faultproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// These are the messages that the proxy acts on. It only measures and passes on all others.
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
	kindBackend  = 'K' // the process id, and the secret to cancel with
	kindComplete = 'C' // from the server
	kindCopyIn   = 'G'
	kindCopyBoth = 'W'
	kindCopyData = 'd'
	kindDataRow  = 'D' // from the server
	kindReady    = 'Z'
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

// headerSize is the size of a message's kind and length.
const headerSize = 5

// readMessage appends the next message to text. Without one it returns text unchanged.
func readMessage(r *bufio.Reader, to []byte) ([]byte, error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return to, err
	}
	size := binary.BigEndian.Uint32(header[1:])
	if size < 4 || size > maxFrame {
		return to, fmt.Errorf("%w: %d in a message of type %q", errBadFrame, size, header[0])
	}
	end := len(to) + 1 + int(size)
	message := slices.Grow(to, 1+int(size))[:end]
	if _, err := io.ReadFull(r, message[len(to):]); err != nil {
		return to, err
	}
	return message, nil
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
