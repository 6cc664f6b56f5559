package examiner

import "strings"

// Problem is one thing that is wrong, and how to put it right.
type Problem struct {
	Name string
	// What describes the fault and its consequence.
	What string
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// a statement for a role that owns the table.
	Fix string
	// Warning is true where calls are answered as if the problem were not there.
	Warning bool
}

// A problem is an entry of the one list of what can be wrong. The server judges: each row that
// the entry's SQL finds is one Problem.
type problem struct {
	name string
	// of says what it is a problem of.
	of subject
	// needs says without what there is nothing to look for.
	needs need
	// columns and from are the SQL. Of tables, t is the table in question.
	columns, from string
	// decisive is the condition under which no effect is run; empty where one always is.
	decisive string
	// what and fix are sentences. {column} stands for a column of the row.
	what, fix string
	warning   bool
	// last ends the list: without the table there is nothing to say about it.
	last bool
}

// subject is what an entry is about.
type subject int

const (
	ofServer subject = iota
	// ofDedup is tool_dedup.
	ofDedup
	// ofTables are tool_dedup and the optional tables. Whatever is wrong with an optional table
	// is its problem "broken".
	ofTables
)

// missing is the problem of an optional table that is not there.
const missing = "missing"

// need is what an entry's SQL names, and not every database has.
type need string

const (
	nothing  need = ""
	versions need = "versions" // goose's version table, and the right to read it
	citus    need = "citus"
)

// problems is the list, in the order in which it is best repaired.
func problems() (all []problem) {
	for _, some := range [][]problem{
		serverProblems(), absenceProblems(), columnProblems(), primaryKeyProblems(), constraintProblems(), dueIndexProblems(),
		storageProblems(), hookProblems(), accessProblems(), citusProblems(), optionalProblems(),
	} {
		all = append(all, some...)
	}
	return all
}

// Row is what SQL has found, by column.
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

// text is a column of a row; empty where there is none.
func (r Row) text(column string) string {
	text, _ := r[column].(string)
	return text
}
