package dedup

import "strings"

// isTxControl tells whether a text holds a statement that begins or ends a
// transaction: it must not be sent inside an effect. Savepoints are fine.
//
// It reads just enough of SQL's lexical rules to find where statements begin:
// comments, quotes and semicolons. The server is the judge of everything else;
// what slips through is found by the checks that effectTx names.
func isTxControl(sql string) bool {
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

// controlStatement tells whether the statement at the start of sql is
// transaction control.
func controlStatement(sql string) bool {
	first, rest := word(sql)
	switch strings.ToLower(first) {
	case "begin", "start", "commit", "end", "abort":
		return true
	case "rollback":
		// ROLLBACK [WORK | TRANSACTION] TO is a savepoint's.
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

// word splits off the letters at the start of sql. The longest word of interest
// is "transaction".
func word(sql string) (first, rest string) {
	n := 0
	for n < len(sql) && ('a' <= sql[n]|0x20 && sql[n]|0x20 <= 'z' || sql[n] == '_' || '0' <= sql[n] && sql[n] <= '9' && n > 0) {
		n++
	}
	return sql[:n], sql[n:]
}

// skipBlank skips white space, empty statements and comments; block comments
// nest.
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

// afterStatement skips to behind the semicolon that ends the statement at the
// start of sql.
func afterStatement(sql string) string {
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch {
		case rest[0] == ';':
			return rest[1:]
		case rest[0] == '\'':
			i = len(sql) - len(afterQuote(rest, '\'', escapesBefore(sql[:i])))
		case rest[0] == '"':
			i = len(sql) - len(afterQuote(rest, '"', false))
		case rest[0] == '$' && (i == 0 || !isWordByte(sql[i-1])):
			i = len(sql) - len(afterDollarQuote(rest))
		case strings.HasPrefix(rest, "--"):
			i = len(sql) - len(afterLine(rest))
		case strings.HasPrefix(rest, "/*"):
			i = len(sql) - len(afterBlockComment(rest))
		default:
			i++
		}
	}
	return ""
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

// escapesBefore tells whether a quote behind before takes backslash escapes, as
// E'…' does and date'…' does not.
func escapesBefore(before string) bool {
	n := len(before)
	return n > 0 && before[n-1]|0x20 == 'e' && (n == 1 || !isWordByte(before[n-2]))
}

// afterDollarQuote skips $tag$…$tag$, or just the $ where it starts a
// parameter.
func afterDollarQuote(sql string) string {
	end := 1
	for end < len(sql) && isWordByte(sql[end]) {
		end++
	}
	if end == len(sql) || sql[end] != '$' || end > 1 && '0' <= sql[1] && sql[1] <= '9' {
		return sql[1:]
	}
	tag := sql[:end+1]
	if close := strings.Index(sql[end+1:], tag); close >= 0 {
		return sql[end+1+close+len(tag):]
	}
	return ""
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
