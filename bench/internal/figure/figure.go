// Package figure writes numbers for people: with as many digits as a reader can
// use, and the same in tables and charts.
package figure

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Text writes a value: 0.16, 12.3, 108, 1,234,567.
func Text(v float64) string {
	switch magnitude := math.Abs(v); {
	case magnitude >= 1000:
		return Thousands(int64(math.Round(v)))
	case magnitude >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case magnitude >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Millis writes a duration in milliseconds, without the unit.
func Millis(d time.Duration) string { return Text(float64(d) / float64(time.Millisecond)) }

// Thousands writes 1234567 as 1,234,567.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, digit := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
