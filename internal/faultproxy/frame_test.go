package faultproxy

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

type seenFrame struct {
	kind byte
	body string
	size int
}

// readAll feeds stream to a reader in pieces of the size given, and returns the complete messages.
func readAll(stream []byte, piece int) (frames []seenFrame, err error) {
	r := frameReader{keep: keepFromClient}
	size := 0
	for len(stream) > 0 {
		block := stream[:min(piece, len(stream))]
		stream = stream[len(block):]
		for len(block) > 0 {
			n, done, err := r.next(block)
			if err != nil {
				return frames, err
			}
			size += n
			block = block[n:]
			if done {
				frames = append(frames, seenFrame{r.kind(), string(r.body), size})
				size = 0
			}
		}
	}
	return frames, nil
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

func TestFrameReader(t *testing.T) {
	t.Parallel()

	t.Run("AnyPieces", func(t *testing.T) {
		t.Parallel()
		stream := sampleStream(t)
		for _, piece := range []int{1, 2, 3, 4, 5, 6, 7, 64, 1000, len(stream)} {
			frames, err := readAll(stream, piece)
			require.NoError(t, err)
			var kinds []byte
			total := 0
			for _, f := range frames {
				kinds = append(kinds, f.kind)
				total += f.size
			}
			require.Equal(t, "PBDESQdcX", string(kinds))
			require.Equal(t, len(stream), total)
			require.Equal(t, "s1\x00INSERT INTO t VALUES ($1)\x00\x00\x00", frames[0].body)
			require.Len(t, frames[1].body, 1024, "only the beginning of a Bind is kept")
			require.Equal(t, "commit\x00", frames[5].body)
			require.Empty(t, frames[6].body, "COPY data is not kept")
		}
	})

	t.Run("ImpossibleLength", func(t *testing.T) {
		t.Parallel()
		for _, size := range []uint32{0, 3, maxFrame + 1, 1<<32 - 1} {
			_, err := readAll(binary.BigEndian.AppendUint32([]byte{'Q'}, size), 1)
			require.ErrorIs(t, err, errBadFrame)
		}
	})
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

func FuzzFrameReader(f *testing.F) {
	f.Add(sampleStream(f), uint8(1))
	f.Add([]byte{'Q', 0, 0, 0, 4, 'S', 0, 0, 0, 4, 'X'}, uint8(3))
	f.Add([]byte{'Q', 0, 0, 0, 3}, uint8(9))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		whole, wholeErr := readAll(stream, max(1, len(stream)))
		split, splitErr := readAll(stream, int(piece)+1)
		require.Equal(t, wholeErr, splitErr)
		require.Equal(t, whole, split)

		at := 0
		tracker := newTracker(1)
		for _, frame := range whole {
			require.Equal(t, stream[at], frame.kind)
			require.EqualValues(t, frame.size-1, binary.BigEndian.Uint32(stream[at+1:]))
			require.Equal(t, frame.body, string(stream[at+5:at+5+len(frame.body)]))
			at += frame.size
			if tracker.add(frame.kind, []byte(frame.body)) {
				tracker.next()
			}
		}
		require.LessOrEqual(t, at, len(stream))
	})
}
