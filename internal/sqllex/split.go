package sqllex

import "strings"

// Split cuts a text of the simple protocol into its statements, as the server does.
// Statements that are empty but for comments are left out. Bodies written as BEGIN
// ATOMIC are not understood.
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

// Commits reports whether a statement ends the transaction with COMMIT or its other
// spelling, END. COMMIT PREPARED ends another transaction.
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
