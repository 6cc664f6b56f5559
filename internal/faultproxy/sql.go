package faultproxy

import "strings"

// splitSQL cuts a simple-protocol text into its statements at the semicolons outside of quotes and comments; the
// server does the same. Statements that are empty but for comments are left out. Bodies written as BEGIN ATOMIC are
// not understood.
func splitSQL(text string) []string {
	var statements []string
	start, blank := 0, true
	end := func(at int) {
		if !blank {
			statements = append(statements, strings.Trim(text[start:at], " \t\n\v\f\r"))
		}
		start, blank = at+1, true
	}
	for i := 0; i < len(text); {
		size, space := token(text, i)
		if text[i] == ';' {
			end(i)
		} else if !space {
			blank = false
		}
		i += size
	}
	end(len(text))
	return statements
}

// commits reports whether the one statement sql ends the transaction with COMMIT or its other spelling, END.
// COMMIT PREPARED ends another transaction, so it is not meant.
func commits(sql string) bool {
	first, rest := word(sql)
	switch strings.ToLower(first) {
	case "end":
		return true
	case "commit":
		second, _ := word(rest)
		return !strings.EqualFold(second, "prepared")
	}
	return false
}

// word returns the first identifier of sql after white space and comments, and what follows it.
func word(sql string) (first, rest string) {
	i := 0
	for i < len(sql) {
		size, space := token(sql, i)
		if !space {
			break
		}
		i += size
	}
	j := i
	for j < len(sql) && letter(sql[j]) {
		j++
	}
	return sql[i:j], sql[j:]
}

// token returns the size of the token at i, at least 1, and whether it is white space or a comment.
func token(sql string, i int) (size int, space bool) {
	rest := sql[i:]
	switch c := rest[0]; {
	case c == ' ' || c >= '\t' && c <= '\r':
		return 1, true
	case strings.HasPrefix(rest, "--"):
		if n := strings.IndexAny(rest, "\r\n"); n >= 0 {
			return n, true
		}
		return len(rest), true
	case strings.HasPrefix(rest, "/*"):
		return comment(rest), true
	case c == '\'' || c == '"':
		escapes := c == '\'' && i > 0 && (sql[i-1] == 'e' || sql[i-1] == 'E') && (i < 2 || !letter(sql[i-2]))
		return quoted(rest, escapes), false
	case c == '$' && (i == 0 || !letter(sql[i-1])):
		return dollar(rest), false
	}
	return 1, false
}

func comment(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "/*"):
			depth++
			i++
		case strings.HasPrefix(s[i:], "*/"):
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

// quoted needs no rule for a doubled quote: it reads as two adjacent strings, of the same length.
func quoted(s string, escapes bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] == s[0]:
			if escapes && i+1 < len(s) && s[i+1] == s[0] {
				i++ // stay inside, or the rest would lose its escapes
				continue
			}
			return i + 1
		}
	}
	return len(s)
}

// dollar measures a dollar-quoted string; a parameter such as $1 is one character and some digits.
func dollar(s string) int {
	j := 1
	for j < len(s) && letter(s[j]) {
		j++
	}
	if j == len(s) || s[j] != '$' || j > 1 && s[1] >= '0' && s[1] <= '9' {
		return 1
	}
	tag := s[:j+1]
	if n := strings.Index(s[len(tag):], tag); n >= 0 {
		return n + 2*len(tag)
	}
	return len(s)
}

func letter(c byte) bool {
	return c == '_' || c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
