// Package examiner knows the tables as the migrations make them, and what can be wrong with
// those that are there. A Deduper, migrations.Check and the doctor ask it: one query, and
// one list of problems.
package examiner
