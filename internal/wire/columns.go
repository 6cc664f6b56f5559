package wire

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The library reads no timestamptz and no bytea. pgx reads those as text in some modes, and how the
// text is written depends on the session's DateStyle and bytea_output. Its statements return
// microseconds of Unix time and hex digits in their place, and these read them.

// Times is a destination of pgx for microseconds of Unix time.
func Times(t *time.Time) pgtype.Int64Scanner { return (*micros)(t) }

// MaybeTimes is Times for a column that may be NULL, which makes *t nil.
func MaybeTimes(t **time.Time) pgtype.Int64Scanner { return maybeMicros{t} }

// Digits is a destination of pgx for the hex digits of a bytea; NULL is nil.
func Digits(b *[]byte) pgtype.TextScanner { return (*digits)(b) }

type micros time.Time

// ScanInt64 implements [pgtype.Int64Scanner].
func (t *micros) ScanInt64(v pgtype.Int8) error {
	if !v.Valid {
		return fmt.Errorf("NULL for a time")
	}
	*t = micros(time.UnixMicro(v.Int64))
	return nil
}

type maybeMicros struct{ t **time.Time }

// ScanInt64 implements [pgtype.Int64Scanner].
func (m maybeMicros) ScanInt64(v pgtype.Int8) error {
	*m.t = nil
	if v.Valid {
		t := time.UnixMicro(v.Int64)
		*m.t = &t
	}
	return nil
}

type digits []byte

// ScanText implements [pgtype.TextScanner].
func (d *digits) ScanText(v pgtype.Text) error {
	if !v.Valid {
		*d = nil
		return nil
	}
	return d.scan([]byte(v.String))
}

func (d *digits) scan(text []byte) (err error) {
	if text == nil {
		*d = nil
		return nil
	}
	*d = make([]byte, hex.DecodedLen(len(text)))
	_, err = hex.Decode(*d, text)
	return err
}

// sum reads a bytea of 32 bytes.
type sum [32]byte

// ScanText implements [pgtype.TextScanner].
func (s *sum) ScanText(v pgtype.Text) error { return s.scan([]byte(v.String)) }

func (s *sum) scan(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("a fingerprint of %d hex digits, which this version of the library has not written", len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}
