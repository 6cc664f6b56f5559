package sqllex

import "strings"

// IsTxControl reports whether a text holds a statement that begins or ends a
// transaction: it must not be sent inside an effect. Savepoints are fine.
//
// It finds where statements begin, see sql_text.go. The server is the judge of
// everything else; what slips through is found by the checks that effectTx names.
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

// controlStatement reports whether the statement at the start of sql is
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
