package sqllex

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxParams is how many parameters a statement may have: the protocol counts them in 16 bits.
const MaxParams = 65_535

// AsWith turns a statement into the WITH clause in front of another one, and
// counts its parameters. Its own WITH queries come before it on one level,
// because one that writes may stand nowhere else.
func AsWith(sql, name string) (with string, params int, err error) {
	invalid := func(reason string, args ...any) (string, int, error) {
		return "", 0, fmt.Errorf(reason, args...)
	}
	if strings.IndexByte(sql, 0) >= 0 { // where the protocol would end the text
		return invalid("holds a zero byte")
	}
	// The semicolon is only found if no quote and no comment is left open.
	text := skipBlank(sql) + "\n;"
	depth, verb, start, end := 0, "", -1, -1
	before, returning := "", false
	var clause withClause
	for rest := text; rest != ""; {
		at := len(text) - len(rest)
		after := afterToken(rest)
		token := rest[:len(rest)-len(after)]
		rest = after
		outermost := depth == 0
		switch {
		case isBlank(token):
			continue
		case token == ";" && skipBlank(rest) != "":
			return invalid("holds more than one statement, or a semicolon between parentheses")
		case token == ";" && depth == 0:
			end, rest = at, ""
			continue
		case token == "(":
			depth++
		case token == ")":
			if depth--; depth < 0 {
				return invalid("closes a parenthesis that it has not opened")
			}
			outermost = depth == 0
		case token[0] == '$' && len(token) > 1 && isDigit(token[1]):
			n, err := strconv.Atoi(token[1:])
			if err != nil || n < 1 || n > MaxParams {
				return invalid("has a parameter %s", token)
			}
			params = max(params, n)
		}
		if !outermost {
			continue
		}
		switch word := strings.ToUpper(token); {
		case start >= 0:
			// After AS and a point it is a name.
			returning = returning || word == "RETURNING" && before != "AS" && before != "."
			before = word
		case verb == "" && word == "WITH":
			verb = word
			clause.endsBefore(word)
		case verb == "" || clause.endsBefore(word):
			verb, start = word, at
		}
	}
	switch {
	case end < 0 && depth > 0:
		return invalid("opens a parenthesis that it does not close")
	case end < 0:
		return invalid("has a quote or a comment that does not end")
	case end == 0 || verb == "":
		return invalid("is empty")
	case start < 0:
		return invalid("has a WITH and nothing after it that begins with SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES")
	case writingVerbs[verb] && !returning:
		return invalid("is %s without a RETURNING, so that it returns no row; add RETURNING with the columns of the result, or RETURNING true AS done", article(verb))
	case !mainVerbs[verb]:
		return invalid("begins with %s; it must be one SELECT, INSERT, UPDATE, DELETE, MERGE or VALUES that returns a row", verb)
	}
	head := "WITH "
	if start > 0 {
		head = text[:start] + ", "
	}
	return head + name + " AS (\n" + text[start:end] + "\n)", params, nil
}

// mainVerbs begin a statement that returns rows. A parenthesis holds a SELECT.
var mainVerbs = map[string]bool{"(": true, "SELECT": true, "INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true, "VALUES": true, "TABLE": true}

// writingVerbs return rows only where a RETURNING says so.
var writingVerbs = map[string]bool{"INSERT": true, "UPDATE": true, "DELETE": true, "MERGE": true}

func article(verb string) string {
	if verb == "INSERT" || verb == "UPDATE" {
		return "an " + verb
	}
	return "a " + verb
}

// isBlank reports whether a token means nothing.
func isBlank(token string) bool {
	return strings.TrimLeft(token, " \t\r\n\f\v") == "" || strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*")
}

// withClause finds the end of a WITH clause. It is shown its tokens that stand
// outside of parentheses, one after the other and in upper case.
//
// The names of its queries and columns may be verbs, so that a verb counts only
// where the grammar takes no name: behind the parenthesis of a query, and behind
// what SEARCH and CYCLE name last.
type withClause struct {
	before string
	// name is true when the next token is a name, last when the one before was the
	// name that a SEARCH or CYCLE may end with.
	name, last bool
}

// endsBefore reports whether the clause ends before this token.
func (w *withClause) endsBefore(word string) bool {
	ends := !w.name && (w.before == ")" || w.last) && mainVerbs[word]
	w.last = w.name && (w.before == "SET" || w.before == "USING")
	switch word {
	case "WITH", ",", "BY", "CYCLE", "SET", "USING":
		w.name = !w.name
	case "RECURSIVE":
		w.name = w.before == "WITH"
	default:
		w.name = false
	}
	w.before = word
	return ends
}
