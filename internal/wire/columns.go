package wire

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The library's statements return microseconds of Unix time and hex digits instead of timestamptz
// and bytea. In some modes pgx reads these types as text, whose form depends on the session's
// DateStyle and bytea_output.

// Times returns a destination for pgx that reads microseconds of Unix time.
func Times(t *time.Time) pgtype.Int64Scanner { return (*micros)(t) }

// MaybeTimes is Times for a column that may be NULL, which sets *t to nil.
func MaybeTimes(t **time.Time) pgtype.Int64Scanner { return maybeMicros{t} }

// Digits returns a destination for pgx that reads the hex digits of a bytea. NULL is nil.
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

// sum decodes the hex digits of 32 bytes.
type sum [32]byte

// ScanText implements [pgtype.TextScanner].
func (s *sum) ScanText(v pgtype.Text) error { return s.scan([]byte(v.String)) }

func (s *sum) scan(text []byte) error {
	if len(text) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("a fingerprint has %d hex digits; another version of the library wrote it", len(text))
	}
	_, err := hex.Decode(s[:], text)
	return err
}
