package tool

import (
	"encoding/json"
	"strconv"
	"strings"
)

// plainInteger is an integer of the arguments, such as 1.0 or 1e2, that stands
// between two bytes of their text and has another text that encoding/json reads.
// To JSON Schema, and to most languages that write JSON, 1 and 1.0 are one value.
type plainInteger struct {
	from, to int
	text     string
}

// respell notes and returns the plain text of the number that was just read, nil if
// it is no integer that fits the type.
func (c *argsChecker) respell(s *shape, raw []byte) []byte {
	if s.kind != anInt && s.kind != aUint {
		return nil
	}
	text, ok := integerText(string(raw))
	if !ok || !s.fits([]byte(text)) {
		return nil
	}
	c.plain = append(c.plain, plainInteger{c.pos - len(raw), c.pos, text})
	return []byte(text)
}

// readable returns the arguments with all integers in their plain text.
func (c *argsChecker) readable() json.RawMessage {
	if len(c.plain) == 0 {
		return c.src
	}
	text := make([]byte, 0, len(c.src)+maxDigits*len(c.plain))
	from := 0
	for _, p := range c.plain {
		text = append(append(text, c.src[from:p.from]...), p.text...)
		from = p.to
	}
	return append(text, c.src[from:]...)
}

// maxDigits is how many digits an integer of 64 bits has at most, with its sign.
const maxDigits = 20

// integerText returns the plain text of a JSON number that is an integer of no more
// than maxDigits.
func integerText(number string) (string, bool) {
	number, minus := strings.CutPrefix(number, "-")
	mantissa, exponent := number, ""
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true // whatever its exponent
	}
	var zeros int64
	if exponent != "" {
		var err error
		if zeros, err = strconv.ParseInt(exponent, 10, 32); err != nil {
			return "", false
		}
	}
	trimmed := strings.TrimRight(digits, "0")
	zeros += int64(len(digits) - len(trimmed) - len(fraction))
	if zeros < 0 || int64(len(trimmed))+zeros > maxDigits {
		return "", false
	}
	text := trimmed + strings.Repeat("0", int(zeros))
	if minus {
		text = "-" + text
	}
	return text, true
}
