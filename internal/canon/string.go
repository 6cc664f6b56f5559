package canon

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text reads the string that begins at pos and appends what is between its
// quotes to dst: escaped in the canonical way, or unescaped.
func (c *canonicalizer) text(dst []byte, escaped bool) ([]byte, error) {
	c.pos++
	for {
		start, high := c.pos, byte(0)
		for c.pos < len(c.src) {
			b := c.src[c.pos]
			if b < ' ' || b == '"' || b == '\\' {
				break
			}
			high |= b
			c.pos++
		}
		plain := c.src[start:c.pos]
		if high >= utf8.RuneSelf && !utf8.Valid(plain) {
			return dst, c.failAt(start+firstInvalid(plain), "invalid UTF-8 in a string")
		}
		dst = append(dst, plain...)
		if c.pos == len(c.src) {
			return dst, c.fail("end of text within a string")
		}
		switch c.src[c.pos] {
		case '"':
			c.pos++
			return dst, nil
		case '\\':
			r, err := c.escape()
			if err != nil {
				return dst, err
			}
			if escaped {
				dst = appendEscaped(dst, r)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		default:
			return dst, c.fail("a control character that is not escaped in a string")
		}
	}
}

// escape reads the escape that begins at pos; both halves of a surrogate pair
// are one.
func (c *canonicalizer) escape() (rune, error) {
	start := c.pos
	if c.pos+1 >= len(c.src) {
		return 0, c.fail("end of text within a string")
	}
	c.pos += 2
	switch b := c.src[start+1]; b {
	case '"', '\\', '/':
		return rune(b), nil
	case 'b':
		return '\b', nil
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'f':
		return '\f', nil
	case 'r':
		return '\r', nil
	case 'u':
		r, ok := c.hex4()
		if !ok {
			break
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if c.take('\\') && c.take('u') {
			if low, ok := c.hex4(); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, nil
				}
			}
		}
		return 0, c.failAt(start, "a lone surrogate in a string")
	}
	return 0, c.failAt(start, "an unknown escape in a string")
}

func (c *canonicalizer) hex4() (r rune, ok bool) {
	if len(c.src)-c.pos < 4 {
		return 0, false
	}
	for _, b := range c.src[c.pos : c.pos+4] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	c.pos += 4
	return r, true
}

func appendEscaped(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '"', r == '\\':
		return append(dst, '\\', byte(r))
	case r >= ' ':
		return utf8.AppendRune(dst, r)
	}
	if short := "\x00\x00\x00\x00\x00\x00\x00\x00btn\x00fr"; int(r) < len(short) && short[r] != 0 {
		return append(dst, '\\', short[r])
	}
	return append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
}

func firstInvalid(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}
