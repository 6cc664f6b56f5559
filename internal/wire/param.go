package wire

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Param is one parameter of such a statement. It is no `any`, because putting
// strings and numbers into one costs an allocation each.
type Param struct {
	kind  paramKind
	text  string
	bytes []byte
	n     int64
	texts []string
	ints  []int64
}

type paramKind uint8

const (
	paramNull paramKind = iota
	paramText
	paramBytes
	paramInt
	paramTime
	paramAge
	paramTexts
	paramInts
)

// Text is a text.
func Text(s string) Param { return Param{kind: paramText, text: s} }

// Int is a bigint.
func Int(n int64) Param { return Param{kind: paramInt, n: n} }

// Bytes is a bytea, NULL for nil.
func Bytes(b []byte) Param {
	if b == nil {
		return Param{}
	}
	return Param{kind: paramBytes, bytes: b}
}

// Time is a timestamptz. It keeps microseconds, as Postgres does.
func Time(t time.Time) Param { return Param{kind: paramTime, n: t.UnixMicro()} }

// Age is an interval of microseconds.
func Age(d time.Duration) Param { return Param{kind: paramAge, n: d.Microseconds()} }

// Texts is a text[] without NULLs. It is never NULL itself.
func Texts(s []string) Param { return Param{kind: paramTexts, texts: s} }

// Ints is a bigint[] without NULLs. It is never NULL itself.
func Ints(n []int64) Param { return Param{kind: paramInts, ints: n} }

// value is the parameter for pgx.
func (p Param) value() any {
	switch p.kind {
	case paramText:
		return p.text
	case paramBytes:
		return p.bytes
	case paramInt:
		return p.n
	case paramTime:
		return pgtype.Timestamptz{Time: time.UnixMicro(p.n), Valid: true} // programs may send a time.Time as another type
	case paramAge:
		return pgtype.Interval{Microseconds: p.n, Valid: true}
	case paramTexts:
		return append([]string{}, p.texts...) // nil would be NULL
	case paramInts:
		return append([]int64{}, p.ints...)
	default:
		return nil
	}
}

// append appends the parameter as the wire has it, and returns in which format.
func (p Param) append(b []byte) ([]byte, int16) {
	switch p.kind {
	case paramText:
		return append(b, p.text...), pgtype.TextFormatCode
	case paramBytes:
		return append(b, p.bytes...), pgtype.BinaryFormatCode
	case paramInt:
		return appendInt64(b, p.n), pgtype.BinaryFormatCode
	case paramTime:
		return appendInt64(b, p.n-postgresEpoch), pgtype.BinaryFormatCode
	case paramAge: // microseconds, days, months
		return appendInt64(appendInt64(b, p.n), 0), pgtype.BinaryFormatCode
	case paramTexts:
		b = appendArray(b, len(p.texts), pgtype.TextOID)
		for _, s := range p.texts {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
		}
		return b, pgtype.BinaryFormatCode
	case paramInts:
		b = appendArray(b, len(p.ints), pgtype.Int8OID)
		for _, n := range p.ints {
			b = appendInt64(binary.BigEndian.AppendUint32(b, 8), n)
		}
		return b, pgtype.BinaryFormatCode
	default:
		return b, pgtype.TextFormatCode
	}
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

// postgresEpoch is 2000-01-01 in microseconds of Unix time: where Postgres begins
// to count.
const postgresEpoch = 946_684_800_000_000
