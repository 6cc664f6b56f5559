package canon

import "encoding/binary"

// HashRoom is the size of the buffers in which hash input is put together on
// the stack; longer input moves to the heap.
const HashRoom = 320

// AppendPart appends a part of a hash's input behind its length in 64 bits, so that no
// choice of bytes in one part can imitate another list of parts.
func AppendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
}
