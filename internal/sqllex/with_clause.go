package sqllex

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
