package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// postgresEpoch is 2000-01-01 in microseconds of Unix time: where Postgres begins to count.
const postgresEpoch = 946_684_800_000_000

// appendParams appends parameters as the wire has them. Their bytes go into room, as long as
// that suffices.
func appendParams(room []byte, values [][]byte, formats []int16, params []any) ([][]byte, []int16) {
	for _, param := range params {
		start, format, null := len(room), int16(0), false
		room, format, null = appendParam(room, param)
		value := room[start:len(room):len(room)]
		if null {
			value = nil
		}
		values, formats = append(values, value), append(formats, format)
	}
	return values, formats
}

// appendParam appends a parameter as the wire has it.
func appendParam(b []byte, param any) (_ []byte, format int16, null bool) {
	switch v := param.(type) {
	case nil:
		return b, pgtype.TextFormatCode, true
	case *string:
		return append(b, *v...), pgtype.TextFormatCode, false
	case *[]byte:
		return append(b, *v...), pgtype.BinaryFormatCode, *v == nil
	case *[32]byte:
		return append(b, v[:]...), pgtype.BinaryFormatCode, false
	case *int64:
		return appendInt64(b, *v), pgtype.BinaryFormatCode, false
	case *time.Time:
		return appendInt64(b, v.UnixMicro()-postgresEpoch), pgtype.BinaryFormatCode, false
	case *time.Duration: // an interval: microseconds, days, months
		return appendInt64(appendInt64(b, v.Microseconds()), 0), pgtype.BinaryFormatCode, false
	case []string:
		b = appendArray(b, len(v), pgtype.TextOID)
		for _, s := range v {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		return b, pgtype.BinaryFormatCode, false
	case []int64:
		b = appendArray(b, len(v), pgtype.Int8OID)
		for _, n := range v {
			b = appendInt64(binary.BigEndian.AppendUint32(b, 8), n)
		}
		return b, pgtype.BinaryFormatCode, false
	default:
		panic(fmt.Sprintf("dedup: %T is no parameter", param))
	}
}

// plainValues appends parameters as pgx takes them.
func plainValues(values, params []any) []any {
	for _, param := range params {
		switch v := param.(type) {
		case *string:
			param = *v
		case *[]byte:
			param = *v
		case *[32]byte:
			param = v[:]
		case *int64:
			param = *v
		case *time.Time: // programs may send a time.Time as another type
			param = pgtype.Timestamptz{Time: *v, Valid: true}
		case *time.Duration:
			param = pgtype.Interval{Microseconds: v.Microseconds(), Valid: true}
		case []string: // nil would be NULL
			param = append([]string{}, v...)
		case []int64:
			param = append([]int64{}, v...)
		}
		values = append(values, param)
	}
	return values
}

// appendArray appends what an array begins with, in front of its n elements.
func appendArray(b []byte, n int, element uint32) []byte {
	dimensions := min(n, 1) // an empty array has none
	for _, header := range [...]uint32{uint32(dimensions), 0, element} {
		b = binary.BigEndian.AppendUint32(b, header)
	}
	if n > 0 { // how many, and the index of the first
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(n)), 1)
	}
	return b
}

func appendInt64(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

// sum reads a bytea of 32 bytes.
type sum [32]byte

// ScanBytes implements [pgtype.BytesScanner].
func (s *sum) ScanBytes(v []byte) error {
	if len(v) != len(s) {
		return fmt.Errorf("a fingerprint of %d bytes, which this version of the library has not written", len(v))
	}
	copy(s[:], v)
	return nil
}

// pgxDests are destinations as pgx takes them.
func pgxDests(dest []any) []any {
	dest = slices.Clone(dest)
	for i, d := range dest {
		if s, ok := d.(*[32]byte); ok {
			dest[i] = (*sum)(s)
		}
	}
	return dest
}

// scanRow reads the columns of a row from the wire's binary format.
func scanRow(values [][]byte, dest []any) error {
	if len(values) != len(dest) {
		return fmt.Errorf("dedup: the server has sent %d columns and not %d", len(values), len(dest))
	}
	for i, v := range values {
		if err := scanValue(v, dest[i]); err != nil {
			return fmt.Errorf("dedup: reading column %d: %w", i+1, err)
		}
	}
	return nil
}

func scanValue(v []byte, dest any) error {
	size := len(v)
	switch d := dest.(type) {
	case nil:
		return nil
	case *bool:
		if size == 1 {
			*d = v[0] != 0
			return nil
		}
	case *int64:
		if size == 8 {
			*d = int64(binary.BigEndian.Uint64(v))
			return nil
		}
	case *time.Time:
		if size == 8 {
			n := int64(binary.BigEndian.Uint64(v))
			if n == math.MaxInt64 || n == math.MinInt64 {
				return errors.New("an infinite time")
			}
			*d = time.UnixMicro(n + postgresEpoch)
			return nil
		}
	case *string:
		if v != nil {
			*d = string(v)
			return nil
		}
	case *pgtype.Text:
		*d = pgtype.Text{String: string(v), Valid: v != nil}
		return nil
	case *[]byte:
		*d = slices.Clone(v)
		return nil
	case *[32]byte:
		return (*sum)(d).ScanBytes(v)
	}
	return fmt.Errorf("%d bytes for %T", size, dest)
}
