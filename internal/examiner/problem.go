package examiner

import "strings"

// Problem is a fault of the tables with its remedy.
type Problem struct {
	Name string
	// What describes the fault and its consequence.
	What string
	// Fix is the remedy. If SQL alone repairs the fault, Fix is "run: " and a statement for a role
	// that owns the table.
	Fix string
	// Warning is true if the fault does not affect the answers of calls.
	Warning bool
}

// A problem is an entry of the list of possible faults. The server decides: each row that the
// entry's SQL finds is one Problem.
type problem struct {
	name string
	// of is the subject of the problem.
	of subject
	// needs is a condition for the entry, such as a table that its SQL names.
	needs need
	// columns and from are the SQL. In entries of tables, t is the table.
	columns, from string
	// decisive is the condition under which no effect is run; empty where one always is.
	decisive string
	// what and fix are sentences. {column} stands for a column of the row.
	what, fix string
	warning   bool
	// last ends the list: without the table there are no further problems.
	last bool
}

// subject is the object of a problem.
type subject int

const (
	ofServer subject = iota
	// ofDedup is tool_dedup.
	ofDedup
	// ofTables are tool_dedup and the optional tables. A fault of an optional table is its problem
	// "broken".
	ofTables
)

// missing is the problem of a missing optional table.
const missing = "missing"

// need is an object that an entry's SQL names, and that not every database has.
type need string

const (
	nothing  need = ""
	versions need = "versions" // goose's version table, and the right to read it
	citus    need = "citus"
)

// problems is the list, in the best order of repair.
func problems() (all []problem) {
	for _, some := range [][]problem{
		serverProblems(), absenceProblems(), columnProblems(), primaryKeyProblems(), constraintProblems(), dueIndexProblems(),
		storageProblems(), hookProblems(), accessProblems(), citusProblems(), optionalProblems(),
	} {
		all = append(all, some...)
	}
	return all
}

// Row is a row that SQL found, by column.
type Row map[string]any

// Fill puts the columns of a row into a sentence.
func (r Row) Fill(sentence string) string {
	var pairs []string
	for column, value := range r {
		if text, ok := value.(string); ok {
			pairs = append(pairs, "{"+column+"}", text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(sentence)
}

// text returns a column of a row, or "".
func (r Row) text(column string) string {
	text, _ := r[column].(string)
	return text
}
