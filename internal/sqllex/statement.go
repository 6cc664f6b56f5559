// Package sqllex finds the ends of SQL tokens and statements by the lexical rules. It has no
// grammar beyond that: only the server knows the meaning of a text.
package sqllex

import "strings"

// IsTxControl reports whether a text contains a statement that begins or ends a transaction, which
// must not be sent inside an effect. Savepoints are allowed.
//
// It looks at the beginnings of statements. The checks of package guard find any other way to end a
// transaction.
func IsTxControl(sql string) bool {
	for {
		sql = skipBlank(sql)
		if controlStatement(sql) {
			return true
		}
		next := strings.IndexByte(sql, ';')
		if next < 0 {
			return false // the usual case: one statement
		}
		sql = afterStatement(sql)
	}
}

// controlStatement reports whether the statement at the start of sql is transaction control.
func controlStatement(sql string) bool {
	first, rest := word(sql)
	switch strings.ToLower(first) {
	case "begin", "start", "commit", "end", "abort":
		return true
	case "rollback":
		// ROLLBACK [WORK | TRANSACTION] TO belongs to a savepoint.
		second, rest := word(skipBlank(rest))
		if strings.EqualFold(second, "work") || strings.EqualFold(second, "transaction") {
			second, _ = word(skipBlank(rest))
		}
		return !strings.EqualFold(second, "to")
	case "prepare":
		second, _ := word(skipBlank(rest))
		return strings.EqualFold(second, "transaction")
	}
	return false
}

// Split cuts a text of the simple protocol into its statements, as the server does. It drops
// statements that contain only comments. It does not understand bodies with BEGIN ATOMIC.
func Split(text string) []string {
	var statements []string
	for rest := text; rest != ""; {
		end := afterStatement(rest)
		statement := strings.TrimSuffix(rest[:len(rest)-len(end)], ";")
		if skipBlank(statement) != "" {
			statements = append(statements, strings.Trim(statement, " \t\n\v\f\r"))
		}
		rest = end
	}
	return statements
}

// Commits reports whether a statement ends the transaction with COMMIT or END. COMMIT PREPARED ends
// another transaction.
func Commits(statement string) bool {
	first, rest := word(skipBlank(statement))
	switch strings.ToLower(first) {
	case "end":
		return true
	case "commit":
		second, _ := word(skipBlank(rest))
		return !strings.EqualFold(second, "prepared")
	}
	return false
}

// The functions below implement just enough of SQL's lexical rules to find the end of a token.

// word splits off the word at the start of sql, if there is one.
func word(sql string) (first, rest string) {
	if sql == "" || !isWordStart(sql[0]) {
		return "", sql
	}
	return identifier(sql)
}

// skipBlank skips white space, empty statements and comments; block comments nest.
func skipBlank(sql string) string {
	for sql != "" {
		switch {
		case strings.IndexByte(" \t\r\n\f\v;", sql[0]) >= 0:
			sql = sql[1:]
		case strings.HasPrefix(sql, "--"):
			sql = afterLine(sql)
		case strings.HasPrefix(sql, "/*"):
			sql = afterBlockComment(sql)
		default:
			return sql
		}
	}
	return sql
}

// afterStatement skips the statement at the start of sql with its semicolon.
func afterStatement(sql string) string {
	for sql != "" {
		if sql[0] == ';' {
			return sql[1:]
		}
		sql = afterToken(sql)
	}
	return ""
}

// afterToken skips the token, comment or white space at the start of sql, which is not empty. It
// must go token by token, because a dollar or a backslash has a meaning that depends on its token.
func afterToken(sql string) string {
	switch c := sql[0]; {
	case c == '\'':
		return afterString(sql, false)
	case c == '"':
		return afterQuote(sql, '"', false)
	case c == '$':
		return afterDollar(sql)
	case strings.HasPrefix(sql, "--"):
		return afterLine(sql)
	case strings.HasPrefix(sql, "/*"):
		return afterBlockComment(sql)
	case isWordStart(c):
		name, rest := identifier(sql)
		if strings.EqualFold(name, "e") && strings.HasPrefix(rest, "'") {
			return afterString(rest, true)
		}
		return rest
	default:
		return sql[1:]
	}
}

func afterLine(sql string) string {
	if end := strings.IndexAny(sql, "\r\n"); end >= 0 {
		return sql[end:]
	}
	return ""
}

func afterBlockComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i += 2
		case "*/":
			depth--
			i += 2
			if depth == 0 {
				return sql[i:]
			}
		default:
			i++
		}
	}
	return ""
}

// afterString skips a string constant and its continuations. A quoted part after white space with a
// line end continues the constant, and backslashes keep their meaning in it.
func afterString(sql string, escapes bool) string {
	for {
		sql = afterQuote(sql, '\'', escapes)
		rest, newline := sql, false
		for rest != "" {
			if strings.HasPrefix(rest, "--") {
				rest = afterLine(rest)
				continue
			}
			if strings.IndexByte(" \t\r\n\f\v", rest[0]) < 0 {
				break
			}
			newline = newline || rest[0] == '\n' || rest[0] == '\r'
			rest = rest[1:]
		}
		if !newline || !strings.HasPrefix(rest, "'") {
			return sql
		}
		sql = rest
	}
}

// afterQuote skips a quoted text; a doubled quote stands for itself.
func afterQuote(sql string, quote byte, escapes bool) string {
	for i := 1; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] != quote:
		case i+1 < len(sql) && sql[i+1] == quote:
			i++
		default:
			return sql[i+1:]
		}
	}
	return ""
}

// afterDollar skips a parameter ($1), a dollar-quoted text ($tag$…$tag$), or another dollar.
func afterDollar(sql string) string {
	end := 1
	for end < len(sql) && isDigit(sql[end]) {
		end++
	}
	if end > 1 {
		return sql[end:]
	}
	for end < len(sql) && (isWordStart(sql[end]) || end > 1 && isDigit(sql[end])) {
		end++
	}
	if end == len(sql) || sql[end] != '$' {
		return sql[1:]
	}
	tag := sql[:end+1]
	if closing := strings.Index(sql[end+1:], tag); closing >= 0 {
		return sql[end+1+closing+len(tag):]
	}
	return ""
}

// identifier splits off the name at the start of sql. A name may contain dollars.
func identifier(sql string) (name, rest string) {
	n := 1
	for n < len(sql) && (isWordStart(sql[n]) || isDigit(sql[n]) || sql[n] == '$') {
		n++
	}
	return sql[:n], sql[n:]
}

func isWordStart(c byte) bool {
	return c == '_' || c >= 0x80 || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
