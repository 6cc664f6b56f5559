// Package figure writes numbers and tables for people: with as many digits as a
// reader can use, and the same in tables and charts.
package figure

import (
	"math"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Text writes a value: 0.16, 12.3, 108, 1,234,567.
func Text(v float64) string {
	digits := 2
	if magnitude := math.Abs(v); magnitude >= 100 {
		digits = 0
	} else if magnitude >= 10 {
		digits = 1
	}
	return message.NewPrinter(language.English).Sprintf("%.*f", digits, v)
}

// Millis writes a duration in milliseconds, without the unit.
func Millis(d time.Duration) string { return Text(float64(d) / float64(time.Millisecond)) }

// Thousands writes 1234567 as 1,234,567.
func Thousands[N int | int64](n N) string {
	return message.NewPrinter(language.English).Sprintf("%d", n)
}
