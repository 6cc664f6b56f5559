package canon

import (
	"bytes"
	"strconv"
)

// maxExponent bounds the exponent of a canonical number on either side of zero. It is never
// expanded: 1e1000000 costs nine bytes.
const maxExponent = 1_000_000_000

// number writes a number by its value: sign, digits without zeros at either end, exponent.
//
// Some decisions on numbers, and why:
//
//   - 1, 1.0, 1e0 and 10e-1 are one number, written 1; 100 and 1e2 are one,
//     written 1e2. The same call passes through JavaScript, Python and Go on
//     its way, and each respells numbers: a retry must not become a misuse
//     because a parser sat between.
//   - -0, 0, 0.0 and 0e5 are one number, written 0. Minus zero is equal to zero
//     in all of these languages, most of them lose the sign in integers, and no
//     tool gives it a meaning.
//   - An exponent beyond ±1,000,000,000 (after the digits are trimmed) is
//     refused. There is nothing to be gained from such a number, and the bound
//     leaves no arithmetic to overflow.
func (c *canonicalizer) number() error {
	start := c.pos
	negative := c.take('-')
	whole := c.digits()
	switch {
	case len(whole) == 0:
		return c.fail("a number without digits")
	case len(whole) > 1 && whole[0] == '0':
		return c.failAt(start, "a number with a leading zero")
	}
	var fraction []byte
	if c.take('.') {
		if fraction = c.digits(); len(fraction) == 0 {
			return c.fail("a number without digits after its point")
		}
	}
	exponent, err := c.exponent()
	if err != nil {
		return err
	}

	exponent -= int64(len(fraction))
	whole = bytes.TrimLeft(whole, "0")
	if len(whole) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	trimmed := bytes.TrimRight(fraction, "0")
	exponent += int64(len(fraction) - len(trimmed))
	fraction = trimmed
	if len(fraction) == 0 {
		trimmed = bytes.TrimRight(whole, "0")
		exponent += int64(len(whole) - len(trimmed))
		whole = trimmed
	}

	if len(whole)+len(fraction) == 0 {
		c.out = append(c.out, '0')
		return nil
	}
	if exponent > maxExponent || exponent < -maxExponent {
		return c.failAt(start, "a number with an exponent beyond ±1000000000")
	}
	if negative {
		c.out = append(c.out, '-')
	}
	c.out = append(append(c.out, whole...), fraction...)
	if exponent != 0 {
		c.out = strconv.AppendInt(append(c.out, 'e'), exponent, 10)
	}
	return nil
}

// exponent reads the exponent of a number, 0 if there is none. It stops growing far above the
// accepted maximum and far below an overflow.
func (c *canonicalizer) exponent() (int64, error) {
	if !c.take('e') && !c.take('E') {
		return 0, nil
	}
	negative := c.take('-')
	if !negative {
		c.take('+')
	}
	digits := c.digits()
	if len(digits) == 0 {
		return 0, c.fail("a number without digits in its exponent")
	}
	var n int64
	for _, d := range digits {
		if n < 1<<50 {
			n = n*10 + int64(d-'0')
		}
	}
	if negative {
		n = -n
	}
	return n, nil
}

func (c *canonicalizer) digits() []byte {
	start := c.pos
	for c.pos < len(c.src) && c.src[c.pos]-'0' <= 9 {
		c.pos++
	}
	return c.src[start:c.pos]
}
