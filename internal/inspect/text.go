package inspect

import (
	"fmt"
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

// Name is what commands are given to name a call, behind their flags.
func Name(scope, tool, key string) string {
	name := Word(scope) + " " + Word(tool) + " " + Word(key)
	for _, part := range []string{scope, tool, key} {
		if strings.HasPrefix(part, "-") {
			return "-- " + name
		}
	}
	return name
}

var plain = regexp.MustCompile(`^[\w.:/@%+=,-]+$`)

// Word is a text as a shell reads it. What cannot be printed is escaped in $'…', which bash, zsh, ksh and a
// POSIX shell of 2024 read.
func Word(text string) string {
	switch {
	case plain.MatchString(text):
		return text
	case Printable(text) == text:
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	var word strings.Builder
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			word.WriteRune('\\')
			word.WriteRune(r)
		case unicode.IsPrint(r):
			word.WriteRune(r)
		default:
			for _, b := range []byte(string(r)) {
				fmt.Fprintf(&word, `\%03o`, b)
			}
		}
	}
	return "$'" + word.String() + "'"
}

// Printable keeps the text of others from steering a terminal, or the order in which a text is read: it shows
// U+202E as "\u202e". Line breaks and tabs become spaces.
func Printable(text string) string {
	var shown strings.Builder
	for _, r := range text {
		switch quoted := strconv.QuoteRune(r); {
		case unicode.IsPrint(r):
			shown.WriteRune(r)
		case r <= unicode.MaxASCII && unicode.IsSpace(r):
			shown.WriteByte(' ')
		default:
			shown.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return shown.String()
}
