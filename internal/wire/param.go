package wire

import (
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
}

type paramKind uint8

const (
	paramNull paramKind = iota
	paramText
	paramBytes
	paramInt
	paramTime
	paramAge
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
		return time.UnixMicro(p.n)
	case paramAge:
		return pgtype.Interval{Microseconds: p.n, Valid: true}
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
	default:
		return b, pgtype.TextFormatCode
	}
}

// postgresEpoch is 2000-01-01 in microseconds of Unix time: where Postgres begins
// to count.
const postgresEpoch = 946_684_800_000_000
