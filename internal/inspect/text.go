package inspect

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Lasting formats a duration in its largest unit.
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

// Ago formats the time between t and now.
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

// Name formats a call's name for commands, after their flags.
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

// Word quotes a text for a shell. Unprintable characters are escaped in $'…', which bash, zsh, ksh
// and the POSIX shell of 2024 understand.
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

// Printable escapes characters that could control a terminal or change the direction of text:
// U+202E becomes "\u202e". Line breaks and tabs become spaces.
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
