package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// readAll returns the complete messages of a stream, and the reason for its end.
func readAll(stream io.Reader) (messages []string, err error) {
	r := bufio.NewReader(stream)
	for {
		message, err := readMessage(r, nil)
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(message))
	}
}

func sampleStream(t testing.TB) []byte {
	var stream []byte
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Parse{Name: "s1", Query: "INSERT INTO t VALUES ($1)"},
		&pgproto3.Bind{PreparedStatement: "s1", Parameters: [][]byte{bytes.Repeat([]byte("x"), 3000)}},
		&pgproto3.Describe{ObjectType: 'P'},
		&pgproto3.Execute{},
		&pgproto3.Sync{},
		&pgproto3.Query{String: "commit"},
		&pgproto3.CopyData{Data: bytes.Repeat([]byte("y"), 500)},
		&pgproto3.CopyDone{},
		&pgproto3.Terminate{},
	} {
		var err error
		stream, err = m.Encode(stream)
		require.NoError(t, err)
	}
	return stream
}

func TestReadMessage(t *testing.T) {
	t.Parallel()
	stream := sampleStream(t)
	for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(append(stream, "Q\x00\x00"...)))} {
		messages, err := readAll(r)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, string(stream), strings.Join(messages, ""))
		require.Len(t, messages, len("PBDESQdcX"))
		for i, kind := range []byte("PBDESQdcX") {
			require.Equal(t, kind, messages[i][0])
		}
		require.Equal(t, "commit\x00", messages[5][headerSize:])
	}
	_, err := readAll(bytes.NewReader(stream[:len(stream)-11]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	for _, size := range []uint32{0, 3, maxFrame + 1, 1<<32 - 1} {
		_, err := readAll(bytes.NewReader(binary.BigEndian.AppendUint32([]byte{'Q'}, size)))
		require.ErrorIs(t, err, errBadFrame)
	}
}

func TestReadStartup(t *testing.T) {
	t.Parallel()

	packet, err := (&pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"},
	}).Encode(nil)
	require.NoError(t, err)
	got, code, err := readStartup(bytes.NewReader(append(packet, 'Q')))
	require.NoError(t, err)
	require.Equal(t, packet, got)
	require.EqualValues(t, pgproto3.ProtocolVersion30, code)

	packet, err = (&pgproto3.CancelRequest{ProcessID: 1, SecretKey: []byte("1234")}).Encode(nil)
	require.NoError(t, err)
	got, code, err = readStartup(bytes.NewReader(packet))
	require.NoError(t, err)
	require.Len(t, got, 16)
	require.EqualValues(t, codeCancel, code)

	_, _, err = readStartup(bytes.NewReader([]byte{0, 0, 0, 7, 0, 0, 0, 0}))
	require.ErrorIs(t, err, errBadFrame)
	_, _, err = readStartup(bytes.NewReader([]byte("GET / HTTP/1.1\r\n")))
	require.ErrorIs(t, err, errBadFrame)
	_, _, err = readStartup(bytes.NewReader([]byte{0, 0, 0, 9, 0, 3, 0, 0}))
	require.Error(t, err)
}

// FuzzMessages sends arbitrary bytes as a client.
func FuzzMessages(f *testing.F) {
	f.Add(sampleStream(f))
	f.Add([]byte{'Q', 0, 0, 0, 4, 'S', 0, 0, 0, 4, 'X'})
	f.Add([]byte{'Q', 0, 0, 0, 3})
	f.Fuzz(func(t *testing.T, stream []byte) {
		messages, _ := readAll(bytes.NewReader(stream))
		require.True(t, bytes.HasPrefix(stream, []byte(strings.Join(messages, ""))))
		tracker := newTracker(1)
		for _, message := range messages {
			if tracker.add(message[0], []byte(message[headerSize:])) {
				tracker.next()
			}
		}
	})
}
