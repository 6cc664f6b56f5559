package kit

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Number is an amount as an agent gave it. Its text is what the recorded
// tools put into their sentences: 375, but 375.0 where it was given so.
type Number struct {
	Value float64
	// Fraction is true where the number was written with a point or exponent.
	Fraction bool
}

// UnmarshalJSON reads a JSON number.
func (n *Number) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return errors.New("expected a number, got " + string(text))
	}
	*n = Number{Value: value, Fraction: strings.ContainsAny(string(text), ".eE")}
	return nil
}

// MarshalJSON writes the number as it was given.
func (n Number) MarshalJSON() ([]byte, error) {
	return []byte(n.String()), nil
}

// Plus adds; the sum has a fraction where one of the two has.
func (n Number) Plus(other Number) Number {
	return Number{Value: n.Value + other.Value, Fraction: n.Fraction || other.Fraction}
}

func (n Number) String() string {
	if !n.Fraction {
		return strconv.FormatFloat(n.Value, 'f', -1, 64)
	}
	if size := math.Abs(n.Value); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(n.Value, 'e', -1, 64)
	}
	text := strconv.FormatFloat(n.Value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// Round2 rounds to two decimals, correctly for the binary value: 2.675 is a
// little less than that and becomes 2.67.
func Round2(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 2, 64), 64)
	if err != nil {
		return x // infinite or not a number
	}
	return rounded
}
