package inspect

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Lasting is a time that has passed, in its largest unit.
func Lasting(d time.Duration) string {
	in := func(n time.Duration, unit string) string { return strconv.FormatInt(int64(n), 10) + unit }
	switch {
	case d < time.Millisecond:
		return in(d.Round(time.Microsecond)/time.Microsecond, " µs")
	case d < time.Second:
		return strconv.FormatFloat(float64(d.Round(100*time.Microsecond))/float64(time.Millisecond), 'f', -1, 64) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d.Round(time.Second) < time.Minute:
		return in(d.Round(time.Second)/time.Second, " s")
	case d.Round(time.Minute) < time.Hour:
		return in(d.Round(time.Minute)/time.Minute, " min")
	case d.Round(time.Hour) < 48*time.Hour:
		return in(d.Round(time.Hour)/time.Hour, " h")
	default:
		return in(d.Round(24*time.Hour)/(24*time.Hour), " days")
	}
}

// Ago says when something was or will be.
func Ago(t, now time.Time) string {
	switch age := now.Sub(t); {
	case age >= time.Second:
		return Lasting(age.Round(time.Second)) + " ago"
	case age > -time.Second:
		return "now"
	default:
		return "in " + Lasting((-age).Round(time.Second))
	}
}

// Name is what commands are given to name a call.
func Name(scope, tool, key string) string {
	return Word(scope) + " " + Word(tool) + " " + Word(key)
}

var plain = regexp.MustCompile(`^[\w.:/@%+=,-]+$`)

// Word is a text as a shell reads it.
func Word(text string) string {
	text = Printable(text)
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Printable keeps the text of others from steering a terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return unicode.ReplacementChar
	}, text)
}
