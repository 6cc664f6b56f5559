package sqllex_test

import (
	"regexp"
	"strconv"
	"strings"
)

// The rules of Postgres's scan.l, written down as it has them: as patterns that
// are tried at each place, the first that fits. It is a reading of SQL's lexical
// rules that shares nothing with sql_text.go.
var (
	scanLine       = regexp.MustCompile(`\A--[^\r\n]*`)
	scanDollarOpen = regexp.MustCompile(`\A\$(?:[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*)?\$`)
	scanParam      = regexp.MustCompile(`\A\$[0-9]+`)
	scanWord       = regexp.MustCompile(`\A[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_$\x{80}-\x{10FFFF}]*`)
	scanString     = regexp.MustCompile(`\A'(?:[^']|'')*'`)
	scanEscaped    = regexp.MustCompile(`\A(?s:'(?:[^'\\]|''|\\.)*')`)
	scanContinues  = regexp.MustCompile(`\A(?:[ \t\f\v]|--[^\r\n]*)*[\r\n](?:[ \t\r\n\f\v]|--[^\r\n]*[\r\n])*'`)
	scanQuoted     = regexp.MustCompile(`\A"(?:[^"]|"")*"`)
)

// plainSQL takes strings, quoted names and comments out of sql, and tells the
// highest parameter. ok is false when one of them does not end.
func plainSQL(sql string) (plain string, params int, ok bool) {
	sql = eachByteAsRune(sql)
	var out strings.Builder
	for sql != "" {
		var token string
		switch {
		case strings.HasPrefix(sql, "--"):
			token = scanLine.FindString(sql)
		case strings.HasPrefix(sql, "/*"):
			if token = nestedComment(sql); token == "" {
				return "", 0, false
			}
		case sql[0] == '\'':
			if token = stringConstant(sql, scanString); token == "" {
				return "", 0, false
			}
		case sql[0] == '"':
			if token = scanQuoted.FindString(sql); token == "" {
				return "", 0, false
			}
		case scanParam.MatchString(sql):
			token = scanParam.FindString(sql)
			n, _ := strconv.Atoi(token[1:])
			params = max(params, n)
		case scanDollarOpen.MatchString(sql):
			open := scanDollarOpen.FindString(sql)
			end := strings.Index(sql[len(open):], open)
			if end < 0 {
				return "", 0, false
			}
			token = sql[:len(open)+end+len(open)]
		case scanWord.MatchString(sql):
			token = scanWord.FindString(sql)
			if strings.EqualFold(token, "e") && strings.HasPrefix(sql[1:], "'") {
				text := stringConstant(sql[1:], scanEscaped)
				if text == "" {
					return "", 0, false
				}
				token += text
			} else {
				out.WriteString(token)
			}
		default:
			token = sql[:1]
			out.WriteString(token)
		}
		sql = sql[len(token):]
	}
	return out.String(), params, true
}

// eachByteAsRune lets patterns read bytes that are no UTF-8 as letters, which is
// what the server's scanner takes them for.
func eachByteAsRune(s string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		out.WriteRune(rune(c))
	}
	return out.String()
}

// stringConstant is a string at the start of sql with all its continuations.
func stringConstant(sql string, part *regexp.Regexp) string {
	n := 0
	for {
		first := part.FindString(sql[n:])
		if first == "" {
			return ""
		}
		n += len(first)
		gap := scanContinues.FindString(sql[n:])
		if gap == "" {
			return sql[:n]
		}
		n += len(gap) - 1
	}
}

func nestedComment(sql string) string {
	marks := regexp.MustCompile(`/\*|\*/`)
	depth, n := 0, 0
	for {
		at := marks.FindStringIndex(sql[n:])
		if at == nil {
			return ""
		}
		if sql[n+at[0]] == '/' {
			depth++
		} else {
			depth--
		}
		if n += at[1]; depth == 0 {
			return sql[:n]
		}
	}
}
