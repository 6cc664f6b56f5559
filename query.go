package dedup

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// query is one SQL text of the library's own and the name that it is
// prepared under. Equal texts have equal names, so that Dedupers that share a
// connection share its statements.
type query struct{ text, name string }

func newQuery(text string) query {
	sum := sha256.Sum256([]byte(text))
	return query{text: text, name: "tool_dedup_" + hex.EncodeToString(sum[:8])}
}

// distinct returns each query once.
func distinct(queries []query) []query {
	var once []query
	known := make(map[string]bool, len(queries))
	for _, q := range queries {
		if !known[q.name] {
			known[q.name] = true
			once = append(once, q)
		}
	}
	return once
}

// param is one parameter of such a statement. It is no `any`, because putting
// strings and numbers into one costs an allocation each.
type param struct {
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

func textParam(s string) param { return param{kind: paramText, text: s} }
func intParam(n int64) param   { return param{kind: paramInt, n: n} }

// bytesParam is NULL for nil.
func bytesParam(b []byte) param {
	if b == nil {
		return param{}
	}
	return param{kind: paramBytes, bytes: b}
}

// timeParam keeps microseconds, as Postgres does.
func timeParam(t time.Time) param { return param{kind: paramTime, n: t.UnixMicro()} }

// ageParam keeps microseconds as well.
func ageParam(d time.Duration) param { return param{kind: paramAge, n: d.Microseconds()} }

// value is the parameter for pgx.
func (p param) value() any {
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

// append appends the parameter as the wire has it, and tells in which format.
func (p param) append(b []byte) ([]byte, int16) {
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
